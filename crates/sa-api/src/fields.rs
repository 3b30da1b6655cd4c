//! Reading a JSON object member by member, so that each refusal names its field and none hides another.
//!
//! Members stay text until their type is known: `1.0` is no integer, a tree of a million arrays is refused unbuilt, and
//! a name given twice is seen, where a map would keep one of the two in silence.

use std::{fmt, ops::RangeInclusive};

use sa_core::timestamp;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::error::Problem;

/// More members than any object of ours has: of what lies beyond nothing is kept, as one of the first is refused anyway.
const MOST_MEMBERS: usize = 64;
/// How much of an unknown name is told back.
const NAME_SHOWN: usize = 64;

/// One field that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    /// Its path, such as `options.priority`; `body` for the whole.
    pub(crate) field: String,
    /// What is wrong and what would be right.
    pub(crate) message: String,
}

/// The refusals found so far.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Vec<FieldError>);

impl Refusals {
    /// Notes one.
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Nothing if there are none, else the problem that lists them.
    ///
    /// # Errors
    /// When anything was refused.
    pub(crate) fn none(self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::invalid(self.0)) }
    }
}

/// One JSON object, each of whose members is taken out once.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    prefix: &'static str,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// The object that is the whole body.
    ///
    /// # Errors
    /// When it is no JSON (400), or JSON but no object (422).
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(body).map_err(Problem::not_json)?;
        let value: &RawValue = serde_json::from_str(text).map_err(Problem::not_json)?;
        match Kind::of(value) {
            Kind::Object => Self::parse(value, ""),
            other => Err(Problem::field("body", format!("must be an object, not {other}"))),
        }
    }

    fn parse(value: &'a RawValue, prefix: &'static str) -> Result<Self, Problem> {
        let Members(members) = serde_json::from_str(value.get()).map_err(Problem::not_json)?;
        Ok(Self { prefix, members })
    }

    /// Takes out the text of this name.
    ///
    /// # Errors
    /// When it holds an escape that is no character.
    pub(crate) fn text(&mut self, name: &str, refusals: &mut Refusals) -> Result<Option<String>, Problem> {
        let Some(value) = self.take(name, refusals) else { return Ok(None) };
        match Kind::of(value) {
            Kind::Text => serde_json::from_str(value.get()).map(Some).map_err(Problem::not_json),
            other => {
                refusals.add(self.path(name), format!("must be a string, not {other}"));
                Ok(None)
            }
        }
    }

    /// Takes out the integer of this name.
    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<u8>, refusals: &mut Refusals) -> Option<u8> {
        let value = self.take(name, refusals)?;
        let number = match Kind::of(value) {
            Kind::Number => serde_json::from_str::<u8>(value.get()).ok().filter(|number| range.contains(number)),
            Kind::Null | Kind::Truth | Kind::Text | Kind::Array | Kind::Object => None,
        };
        if number.is_none() {
            let (least, most) = range.into_inner();
            refusals.add(self.path(name), format!("must be an integer from {least} to {most}"));
        }
        number
    }

    /// Takes out the RFC 3339 time of this name.
    ///
    /// # Errors
    /// When its text holds an escape that is no character.
    pub(crate) fn time(&mut self, name: &str, refusals: &mut Refusals) -> Result<Option<OffsetDateTime>, Problem> {
        let Some(text) = self.text(name, refusals)? else { return Ok(None) };
        let time = timestamp::parse(&text);
        if time.is_none() {
            refusals.add(self.path(name), "must be an RFC 3339 time, such as 2030-01-31T08:00:00Z");
        }
        Ok(time)
    }

    /// Takes out the object `name`, whose own members are told as `name.member`; `limit` bytes at most, as sent.
    ///
    /// # Errors
    /// When it is too large (413), or no JSON after all (400).
    pub(crate) fn object(
        &mut self,
        name: &'static str,
        limit: usize,
        refusals: &mut Refusals,
    ) -> Result<Option<Self>, Problem> {
        let Some(value) = self.take(name, refusals) else { return Ok(None) };
        if value.get().len() > limit {
            return Err(Problem::too_large(name, limit));
        }
        match Kind::of(value) {
            Kind::Object => Self::parse(value, name).map(Some),
            other => {
                refusals.add(name, format!("must be an object, not {other}"));
                Ok(None)
            }
        }
    }

    /// Refuses whatever was not taken out.
    pub(crate) fn refuse_the_rest(self, refusals: &mut Refusals) {
        for (name, _) in &self.members {
            let shown: String = name.chars().take(NAME_SHOWN).collect();
            refusals.add(self.path(&shown), "is not a field of this request");
        }
    }

    /// The member of this name; null is the same as absent.
    fn take(&mut self, name: &str, refusals: &mut Refusals) -> Option<&'a RawValue> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        let (_, value) = self.members.remove(index);
        let before = self.members.len();
        self.members.retain(|(member, _)| member != name);
        if self.members.len() != before {
            refusals.add(self.path(name), "is given more than once");
        }
        (Kind::of(value) != Kind::Null).then_some(value)
    }

    fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Truth,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    /// The first character tells the type of a valid JSON text.
    fn of(value: &RawValue) -> Self {
        match value.get().as_bytes().first() {
            Some(b'"') => Self::Text,
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b't' | b'f') => Self::Truth,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Truth => "true or false",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while members.len() < MOST_MEMBERS {
                    let Some(member) = map.next_entry()? else { return Ok(Members(members)) };
                    members.push(member);
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> Vec<FieldError> {
        let mut refusals = Refusals::default();
        let mut fields = Fields::of_body(body.as_bytes()).unwrap();
        fields.text("a", &mut refusals).unwrap();
        fields.integer("n", 1..=20, &mut refusals);
        fields.refuse_the_rest(&mut refusals);
        refusals.0
    }

    #[test]
    fn every_refusal_is_told_at_once() {
        let fields: Vec<_> = refused(r#"{"a":1,"n":21,"x":[[]],"x":0}"#).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["a", "n", "x", "x"]);
    }

    #[test]
    fn number_of_another_spelling_is_no_integer() {
        for number in ["1.0", "1e1", "\"1\"", "-1", "256", "0", "true", "[1]"] {
            assert_eq!(refused(&format!(r#"{{"n":{number}}}"#)).len(), 1, "{number}");
        }
        assert_eq!(refused(r#"{"n":20,"a":null}"#), []);
    }

    #[test]
    fn name_given_twice_is_refused() {
        assert_eq!(refused(r#"{"a":"x","a":"y"}"#)[0].message, "is given more than once");
        assert_eq!(refused(r#"{"a":"x","\u0061":"y"}"#)[0].message, "is given more than once");
    }

    #[test]
    fn object_of_very_many_members_is_refused_by_its_first() {
        let members: Vec<_> = (0..1000).map(|n| format!("\"m{n}\":{{}}")).collect();
        assert_eq!(refused(&format!("{{{}}}", members.join(","))).len(), MOST_MEMBERS);
    }
}
