//! Times as text: RFC 3339 in UTC with microseconds, as every part of Asterion prints them.

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const MICROSECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// `2026-12-01T08:22:28.000000Z`.
#[must_use]
pub fn format(at: OffsetDateTime) -> String {
    at.to_offset(time::UtcOffset::UTC).format(MICROSECONDS).expect("the format names only what every time has")
}

/// The instant this RFC 3339 text names, in any offset; nothing if it names none, or one that UTC has no year for.
///
/// ```
/// use sa_core::timestamp::{format, parse};
/// let at = parse("2026-12-01T10:00:00+02:00").expect("a time");
/// assert_eq!(format(at), "2026-12-01T08:00:00.000000Z");
/// assert_eq!(parse("yesterday"), None);
/// assert_eq!(parse("9999-12-31T23:59:59-23:59"), None);
/// ```
#[must_use]
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(time::UtcOffset::UTC)
}

/// For `#[serde(serialize_with)]` on a time.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: serde::Serializer>(at: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*at))
}

/// For `#[serde(serialize_with)]` on a time that may be absent.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_option<S: serde::Serializer>(at: &Option<OffsetDateTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}
