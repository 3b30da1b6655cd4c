//! Times as text: to the microsecond there and back, in one spelling that sorts as the times do.

use proptest::prelude::*;
use sa_core::timestamp::{format, parse};
use time::{Duration, OffsetDateTime, UtcOffset};

/// Every microsecond of the years 0 to 9999.
fn instants() -> impl Strategy<Value = OffsetDateTime> {
    (-62_167_219_200_000_000_i64..=253_402_300_799_999_999)
        .prop_map(|us| OffsetDateTime::UNIX_EPOCH + Duration::microseconds(us))
}

/// Most of these are times.
const NEARLY_TIMES: &str = "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,9})?\
                            (Z|[+-][0-2][0-9]:[0-5][0-9])";

proptest! {
    #[test]
    fn a_time_comes_back_to_the_microsecond(at in instants()) {
        prop_assert_eq!(parse(&format(at)), Some(at));
    }

    #[test]
    fn the_same_instant_in_any_offset_has_one_spelling(at in instants(), minutes in -1439..1439_i32) {
        let offset = UtcOffset::from_whole_seconds(minutes * 60).unwrap();
        if let Some(elsewhere) = at.checked_to_offset(offset) {
            prop_assert_eq!(format(elsewhere), format(at));
        }
    }

    #[test]
    fn the_texts_sort_as_the_times_do(one in instants(), other in instants()) {
        prop_assert_eq!(format(one).cmp(&format(other)), one.cmp(&other));
    }

    #[test]
    fn whatever_is_read_can_be_written(text in prop_oneof![NEARLY_TIMES, "\\PC{0,30}"]) {
        if let Some(at) = parse(&text) {
            prop_assert_eq!(parse(&format(at)).map(|again| at - again < Duration::MICROSECOND), Some(true));
        }
    }
}
