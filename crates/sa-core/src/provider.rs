//! Which providers and models there are: names, never keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::job::{ExecutionOptions, Lane};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer`.
    #[default]
    Bearer,
    /// The protocol's own key header (`api-key`, `x-api-key`, …).
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
    /// Where it is, up to and including the version (`https://host/v1`).
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    pub api_key_env: Option<String>,
    /// The file that holds its key.
    pub api_key_file: Option<PathBuf>,
    /// How the key is sent.
    #[serde(default)]
    pub auth: Auth,
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

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is not a duration ({error}); write it as 250ms, 30s or 14m"))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    provider: Vec<Provider>,
}

/// A configuration that cannot be used: what is wrong with it, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CatalogError(String);

/// An option that names what is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct OptionError {
    /// The field, as the HTTP body spells it.
    pub field: &'static str,
    /// Why, and what would be accepted.
    pub reason: String,
}

/// The configured providers, in the order of the file.
#[derive(Clone, Debug)]
pub struct Catalog {
    providers: Vec<Provider>,
    default: usize,
    /// Set when there was neither a file nor a model variable.
    only_echo: bool,
}

/// The protocols that exist where their model variable is set, in this order, each with its address.
const FROM_ENVIRONMENT: [(&str, Kind, &str, Option<&str>, &str); 4] = [
    ("openai", Kind::Openai, "SA_OPENAI_MODEL", Some("OPENAI_API_KEY"), "https://api.openai.com/v1"),
    ("anthropic", Kind::Anthropic, "SA_ANTHROPIC_MODEL", Some("ANTHROPIC_API_KEY"), "https://api.anthropic.com/v1"),
    (
        "gemini",
        Kind::Gemini,
        "SA_GEMINI_MODEL",
        Some("GEMINI_API_KEY"),
        "https://generativelanguage.googleapis.com/v1beta",
    ),
    ("ollama", Kind::Ollama, "SA_OLLAMA_MODEL", None, "http://127.0.0.1:11434"),
];

impl Catalog {
    /// The catalog of this file's text; without a file, of the model variables that are set; without those, `echo` alone.
    ///
    /// # Errors
    /// A file that is not TOML of the known shape, a name twice or unusable, no model, an unknown fallback, two defaults.
    pub fn load(file: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Result<Self, CatalogError> {
        if let Some(text) = file {
            let file: File =
                toml::from_str(text).map_err(|error| CatalogError(format!("not a providers file: {error}")))?;
            return Self::of(file.provider, false);
        }
        let set = |name: &str| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let found: Vec<_> = FROM_ENVIRONMENT
            .iter()
            .filter_map(|&(name, kind, variable, key, url)| {
                let url = if kind == Kind::Ollama { ollama_url(set("OLLAMA_HOST"), url) } else { url.to_owned() };
                Some(plain(name, kind, set(variable)?, Some(url), key.map(str::to_owned)))
            })
            .collect();
        if found.is_empty() {
            return Self::of(vec![plain("echo", Kind::Echo, "echo".to_owned(), None, None)], true);
        }
        Self::of(found, false)
    }

    fn of(providers: Vec<Provider>, only_echo: bool) -> Result<Self, CatalogError> {
        let known: BTreeSet<_> = providers.iter().map(|provider| provider.name.clone()).collect();
        let mut seen = BTreeSet::new();
        for provider in &providers {
            check(provider, &known)?;
            if !seen.insert(&provider.name) {
                return Err(CatalogError(format!(
                    "provider {:?} is there twice; give each its own name",
                    provider.name
                )));
            }
        }
        let defaults: Vec<_> = (0..providers.len()).filter(|&n| providers[n].default).collect();
        match defaults[..] {
            _ if providers.is_empty() => Err(CatalogError("there is no [[provider]]; add one".into())),
            [] => Ok(Self { providers, default: 0, only_echo }),
            [default] => Ok(Self { providers, default, only_echo }),
            [first, second, ..] => Err(CatalogError(format!(
                "{:?} and {:?} both say default = true; leave it with one",
                providers[first].name, providers[second].name
            ))),
        }
    }

    /// The providers, in the order of the file.
    #[must_use]
    pub fn providers(&self) -> &[Provider] {
        &self.providers
    }

    /// The provider of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// The one that answers where nothing is asked for.
    #[must_use]
    pub fn default_provider(&self) -> &Provider {
        &self.providers[self.default]
    }

    /// Whether nothing was configured, so that only `echo` answers.
    #[must_use]
    pub const fn is_only_echo(&self) -> bool {
        self.only_echo
    }

    /// Every configured model.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().flat_map(|provider| provider.models.iter().map(String::as_str))
    }

    /// The lane a job with these options waits in: the router model's provider; else `prefer_provider`; else the first
    /// provider that lists `model`; else the default.
    ///
    /// # Errors
    /// The field that names something not configured.
    pub fn lane_for(&self, options: &ExecutionOptions) -> Result<Lane, OptionError> {
        let answering = self.answering(options)?;
        let Some(router) = &options.router_model else { return Ok(Lane::new(&answering.name)) };
        let provider = self.listing(router).ok_or_else(|| self.no_such_model("options.router_model", router))?;
        Ok(Lane::new(&provider.name))
    }

    /// The provider and the model that answer a job of this lane; nothing if the options or the lane name what is not
    /// configured here.
    #[must_use]
    pub fn model_for<'a>(&'a self, lane: &Lane, options: &'a ExecutionOptions) -> Option<(&'a Provider, &'a str)> {
        let provider = if lane.is_unresolved() || options.router_model.is_some() {
            self.answering(options).ok()?
        } else {
            self.get(lane.as_str())?
        };
        match &options.model {
            None => Some((provider, &provider.models[0])),
            Some(model) => provider.models.contains(model).then_some((provider, model.as_str())),
        }
    }

    fn answering(&self, options: &ExecutionOptions) -> Result<&Provider, OptionError> {
        let Some(preferred) = &options.prefer_provider else {
            let Some(model) = &options.model else { return Ok(self.default_provider()) };
            return self.listing(model).ok_or_else(|| self.no_such_model("options.model", model));
        };
        let field = "options.prefer_provider";
        let provider = self.get(preferred).ok_or_else(|| OptionError {
            field,
            reason: format!("there is no provider {preferred:?}; configured are {}", list(self.names())),
        })?;
        match &options.model {
            Some(model) if !self.models().any(|known| known == model) => {
                Err(self.no_such_model("options.model", model))
            }
            Some(model) if !provider.models.contains(model) => Err(OptionError {
                field,
                reason: format!(
                    "{preferred:?} does not have {model:?}; it has {}",
                    list(provider.models.iter().map(String::as_str))
                ),
            }),
            _ => Ok(provider),
        }
    }

    fn listing(&self, model: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.models.iter().any(|known| known == model))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().map(|provider| provider.name.as_str())
    }

    fn no_such_model(&self, field: &'static str, model: &str) -> OptionError {
        OptionError { field, reason: format!("no provider has {model:?}; configured are {}", list(self.models())) }
    }
}

fn check(provider: &Provider, known: &BTreeSet<String>) -> Result<(), CatalogError> {
    let name = &provider.name;
    let fault = |what: String| Err(CatalogError(format!("provider {name:?}: {what}")));
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(usable) {
        return fault("a name is 1 to 64 letters, digits, '-', '_' or '.'".into());
    }
    if provider.models.is_empty() || provider.models.iter().any(|model| model.is_empty() || model.len() > 128) {
        return fault("it needs models = [\"…\"], each 1 to 128 bytes".into());
    }
    if provider.base_url.is_none() && provider.kind != Kind::Echo {
        return fault("it needs base_url = \"https://…\"".into());
    }
    if let Some(unknown) = provider.fallback.iter().find(|other| !known.contains(*other) || *other == name) {
        return fault(format!("fallback {unknown:?} is not another provider of this file"));
    }
    Ok(())
}

fn plain(name: &str, kind: Kind, model: String, base_url: Option<String>, key: Option<String>) -> Provider {
    Provider {
        name: name.to_owned(),
        kind,
        base_url,
        auth: if key.is_some() { Auth::Bearer } else { Auth::None },
        api_key_env: key,
        api_key_file: None,
        extra_query: BTreeMap::new(),
        models: vec![model],
        connect_timeout: None,
        first_byte_timeout: None,
        idle_timeout: None,
        total_timeout: None,
        max_output_tokens: None,
        prices: BTreeMap::new(),
        fallback: Vec::new(),
        default: false,
    }
}

/// `OLLAMA_HOST` is `host`, `host:port` or a whole URL.
fn ollama_url(host: Option<String>, usual: &str) -> String {
    match host {
        None => usual.to_owned(),
        Some(host) if host.contains("://") => host,
        Some(host) if host.contains(':') => format!("http://{host}"),
        Some(host) => format!("http://{host}:11434"),
    }
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[provider]]
        name = "big"
        kind = "openai"
        base_url = "https://big.example/v1"
        api_key_env = "BIG_KEY"
        models = ["large", "shared"]
        total_timeout = "90s"

        [[provider]]
        name = "small"
        kind = "openai"
        base_url = "http://127.0.0.1:1/v1"
        auth = "none"
        models = ["tiny", "shared"]
        default = true
    "#;

    fn options(model: Option<&str>, provider: Option<&str>, router: Option<&str>) -> ExecutionOptions {
        let owned = |word: Option<&str>| word.map(str::to_owned);
        ExecutionOptions {
            model: owned(model),
            prefer_provider: owned(provider),
            depth: None,
            router_model: owned(router),
        }
    }

    fn lane(catalog: &Catalog, options: &ExecutionOptions) -> Result<String, &'static str> {
        catalog.lane_for(options).map(|lane| lane.to_string()).map_err(|error| error.field)
    }

    #[test]
    fn the_lane_follows_router_then_provider_then_model_then_default() {
        let catalog = Catalog::load(Some(FILE), |_| None).unwrap();
        let cases = [
            (options(None, None, None), Ok("small")),
            (options(Some("large"), None, None), Ok("big")),
            (options(Some("shared"), None, None), Ok("big")),
            (options(Some("shared"), Some("small"), None), Ok("small")),
            (options(None, Some("big"), None), Ok("big")),
            (options(Some("large"), None, Some("tiny")), Ok("small")),
            (options(Some("large"), Some("small"), None), Err("options.prefer_provider")),
            (options(Some("none"), None, None), Err("options.model")),
            (options(Some("none"), Some("small"), None), Err("options.model")),
            (options(None, Some("none"), None), Err("options.prefer_provider")),
            (options(None, None, Some("none")), Err("options.router_model")),
        ];
        for (asked, expected) in cases {
            assert_eq!(lane(&catalog, &asked), expected.map(str::to_owned), "{asked:?}");
        }
    }

    #[test]
    fn an_unresolved_lane_is_answered_by_the_same_rules() {
        let catalog = Catalog::load(Some(FILE), |_| None).unwrap();
        let answer = |lane: &str, asked: &ExecutionOptions| {
            catalog.model_for(&Lane::new(lane), asked).map(|(p, m)| (p.name.clone(), m.to_owned()))
        };
        assert_eq!(answer("", &options(None, None, None)), Some(("small".into(), "tiny".into())));
        assert_eq!(answer("", &options(Some("large"), None, None)), Some(("big".into(), "large".into())));
        assert_eq!(answer("big", &options(None, None, None)), Some(("big".into(), "large".into())));
        assert_eq!(answer("gone", &options(None, None, None)), None);
        assert_eq!(answer("big", &options(Some("tiny"), None, None)), None);
    }

    #[test]
    fn without_a_file_the_model_variables_decide_and_without_those_echo() {
        let env = |name: &str| match name {
            "SA_OLLAMA_MODEL" => Some("llama".to_owned()),
            "OLLAMA_HOST" => Some("box:1234".to_owned()),
            "OPENAI_API_KEY" => Some("ignored without its model".to_owned()),
            _ => None,
        };
        let catalog = Catalog::load(None, env).unwrap();
        assert_eq!(catalog.default_provider().base_url.as_deref(), Some("http://box:1234"));
        assert_eq!(catalog.providers().len(), 1);
        let echo = Catalog::load(None, |_| None).unwrap();
        assert!(echo.is_only_echo());
        assert_eq!(echo.default_provider().kind, Kind::Echo);
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused_with_the_reason() {
        let provider = |rest: &str| format!("[[provider]]\nname = \"a\"\nkind = \"echo\"\n{rest}");
        let cases = [
            ("provider = []".to_owned(), "no [[provider]]"),
            (provider(""), "models"),
            (provider("models = []"), "models"),
            (provider("models = [\"m\"]\nfallback = [\"b\"]"), "fallback"),
            (provider("models = [\"m\"]\napi_base = \"x\""), "api_base"),
            (provider("models = [\"m\"]\ntotal_timeout = \"soon\""), "duration"),
            (format!("{0}models = [\"m\"]\n{0}models = [\"m\"]", provider("")), "twice"),
            (provider("models = [\"m\"]").replace("echo", "openai"), "base_url"),
            (provider("models = [\"m\"]").replace("\"a\"", "\"a b\""), "a name is"),
        ];
        for (text, reason) in cases {
            let error = Catalog::load(Some(&text), |_| None).expect_err(&text).to_string();
            assert!(error.contains(reason), "{text}\n{error}");
        }
    }
}
