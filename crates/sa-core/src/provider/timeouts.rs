//! How long one call may take: the contract's limits, the provider's own, and those of single models.

use std::time::Duration;

use serde::Deserialize;

use super::{Provider, duration};

const CONNECT: Duration = Duration::from_secs(5);
/// Until the first byte, and between two: every protocol here streams.
const SILENCE: Duration = Duration::from_secs(60);
const TOTAL: Duration = Duration::from_secs(180);

/// The limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request to the head of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// From the request to the end of the answer.
    pub total: Duration,
}

impl Timeouts {
    /// No run lives longer (contract §4.7): a longer `total` would be a promise nobody keeps.
    pub const CEILING: Duration = Duration::from_secs(15 * 60);
}

/// `[provider.model_timeouts."MODEL"]`: what differs for this model. Connecting is the host's affair, not the model's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTimeouts {
    /// Until the first byte of the answer.
    #[serde(default, deserialize_with = "duration")]
    pub first_byte_timeout: Option<Duration>,
    /// Between two bytes of the answer.
    #[serde(default, deserialize_with = "duration")]
    pub idle_timeout: Option<Duration>,
    /// The whole call.
    #[serde(default, deserialize_with = "duration")]
    pub total_timeout: Option<Duration>,
}

impl Provider {
    /// The limits of a call to this model: its own, else the provider's, else 5 s to connect, 60 s of silence, 180 s in all.
    #[must_use]
    pub fn timeouts(&self, model: &str) -> Timeouts {
        let own = self.model_timeouts.get(model).copied().unwrap_or_default();
        Timeouts {
            connect: self.connect_timeout.unwrap_or(CONNECT),
            first_byte: own.first_byte_timeout.or(self.first_byte_timeout).unwrap_or(SILENCE),
            idle: own.idle_timeout.or(self.idle_timeout).unwrap_or(SILENCE),
            total: own.total_timeout.or(self.total_timeout).unwrap_or(TOTAL),
        }
    }

    /// Why the configured limits cannot be kept, if they cannot.
    pub(super) fn timeouts_fault(&self) -> Option<String> {
        if let Some(unknown) = self.model_timeouts.keys().find(|model| !self.models.contains(model)) {
            return Some(format!("model_timeouts names {unknown:?}, which is not one of its models"));
        }
        let limits = self.models.iter().map(|model| self.timeouts(model));
        limits.into_iter().find_map(|limits| {
            let Timeouts { connect, first_byte, idle, total } = limits;
            if [connect, first_byte, idle, total].contains(&Duration::ZERO) {
                return Some("a time-out of nothing lets no call succeed; leave it out or name a duration".to_owned());
            }
            (total > Timeouts::CEILING).then(|| {
                let longest = humantime::format_duration(Timeouts::CEILING);
                format!(
                    "total_timeout {} is over {longest}, and no run lives longer",
                    humantime::format_duration(total)
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::provider::{Catalog, Timeouts};
    use std::time::Duration;

    fn load(settings: &str) -> Result<Catalog, String> {
        let head =
            "[[provider]]\nname = \"p\"\nkind = \"openai\"\nbase_url = \"http://h\"\nmodels = [\"m\", \"slow\"]\n";
        Catalog::load(Some(&format!("{head}{settings}")), |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_models_limits_come_before_the_providers_and_those_before_the_contracts() {
        let secs = Duration::from_secs;
        let plain = load("").unwrap();
        let usual = Timeouts { connect: secs(5), first_byte: secs(60), idle: secs(60), total: secs(180) };
        assert_eq!(plain.default_provider().timeouts("m"), usual);
        let own = load(
            "connect_timeout = \"2s\"\ntotal_timeout = \"4m\"\n[provider.model_timeouts.slow]\ntotal_timeout = \"14m\"\nfirst_byte_timeout = \"5m\"",
        );
        let (own, connect) = (own.unwrap(), secs(2));
        assert_eq!(own.default_provider().timeouts("m"), Timeouts { connect, total: secs(240), ..usual });
        let slow = Timeouts { connect, first_byte: secs(300), total: secs(840), ..usual };
        assert_eq!(own.default_provider().timeouts("slow"), slow);
    }

    #[test]
    fn limits_that_nobody_can_keep_are_refused() {
        for (settings, said) in [
            ("total_timeout = \"16m\"", "over 15m"),
            ("[provider.model_timeouts.slow]\ntotal_timeout = \"1h\"", "over 15m"),
            ("idle_timeout = \"0s\"", "nothing"),
            ("[provider.model_timeouts.none]\nidle_timeout = \"1s\"", "\"none\""),
            ("[provider.model_timeouts.m]\nconnect_timeout = \"1s\"", "connect_timeout"),
        ] {
            let error = load(settings).unwrap_err();
            assert!(error.contains(said), "{settings}: {error}");
        }
        assert!(load("total_timeout = \"15m\"").is_ok());
    }
}
