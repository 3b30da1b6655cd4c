//! Which providers and models there are: names, never keys.

mod catalog;
mod timeouts;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

pub use self::catalog::{Catalog, CatalogError, OptionError};
pub use self::timeouts::{ModelTimeouts, Timeouts};

/// The wire protocol a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// OpenAI Chat Completions, and every server compatible with it.
    Openai,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini generateContent.
    Gemini,
    /// Ollama's own chat protocol.
    Ollama,
    /// Answers with the prompt's own text; for trying things out.
    Echo,
}

/// How the key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer`.
    Bearer,
    /// The protocol's own key header (`api-key`, `x-api-key`, `x-goog-api-key`).
    ApiKey,
    /// No key.
    None,
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Sent.
    pub input: f64,
    /// Sent, and read from the provider's cache; `input` where absent.
    pub cached_input: Option<f64>,
    /// Received.
    pub output: f64,
}

/// One `[[provider]]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Its name here: also the name of its lane.
    pub name: String,
    /// Its protocol.
    pub kind: Kind,
    /// Where it is, up to and including the version (`https://host/v1`). `{model}` stands for the model asked.
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    pub api_key_env: Option<String>,
    /// The file that holds its key.
    pub api_key_file: Option<PathBuf>,
    /// How the key is sent; [`Provider::auth`] where absent.
    pub auth: Option<Auth>,
    /// The protocol's version, where a header names it (`anthropic-version`).
    pub api_version: Option<String>,
    /// Query parameters of every call (Azure's `api-version`).
    #[serde(default)]
    pub extra_query: BTreeMap<String, String>,
    /// Its models; the first answers where none is asked for.
    pub models: Vec<String>,
    /// 5 s where absent.
    #[serde(default, deserialize_with = "duration")]
    pub connect_timeout: Option<Duration>,
    /// Until the first byte of the answer.
    #[serde(default, deserialize_with = "duration")]
    pub first_byte_timeout: Option<Duration>,
    /// Between two bytes of the answer.
    #[serde(default, deserialize_with = "duration")]
    pub idle_timeout: Option<Duration>,
    /// The whole call.
    #[serde(default, deserialize_with = "duration")]
    pub total_timeout: Option<Duration>,
    /// Other limits for single models of it.
    #[serde(default)]
    pub model_timeouts: BTreeMap<String, ModelTimeouts>,
    /// The token budget sent with each call, where the protocol has one.
    pub max_output_tokens: Option<u32>,
    /// Prices by model.
    #[serde(default)]
    pub prices: BTreeMap<String, Prices>,
    /// Providers asked instead, in order, while this one cannot answer.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// Whether it answers where nothing is asked for.
    #[serde(default)]
    pub default: bool,
}

impl Provider {
    /// How the key is sent: as configured, else as the protocol's own documentation sends it. Ollama takes a key only where
    /// one is configured: its cloud asks for one, a server at home does not.
    #[must_use]
    pub fn auth(&self) -> Auth {
        let with_key = self.api_key_env.is_some() || self.api_key_file.is_some();
        self.auth.unwrap_or(match self.kind {
            Kind::Openai | Kind::OpenaiResponses => Auth::Bearer,
            Kind::Anthropic | Kind::Gemini => Auth::ApiKey,
            Kind::Ollama if with_key => Auth::Bearer,
            Kind::Ollama | Kind::Echo => Auth::None,
        })
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is not a duration ({error}); write it as 250ms, 30s or 14m"))
    })
}
