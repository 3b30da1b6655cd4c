//! The configured providers, and the rules by which a job finds its lane and its model.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Kind, Provider};
use crate::job::{ExecutionOptions, Lane};

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
        let provider = self.offering(router).ok_or_else(|| self.no_such_model("options.router_model", router))?;
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
            return self.offering(model).ok_or_else(|| self.no_such_model("options.model", model));
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

    /// The first provider that has this model.
    #[must_use]
    pub fn offering(&self, model: &str) -> Option<&Provider> {
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
    provider.timeouts_fault().map_or(Ok(()), fault)
}

fn plain(name: &str, kind: Kind, model: String, base_url: Option<String>, key: Option<String>) -> Provider {
    Provider {
        name: name.to_owned(),
        kind,
        base_url,
        auth: None,
        api_version: None,
        api_key_env: key,
        api_key_file: None,
        extra_query: BTreeMap::new(),
        models: vec![model],
        connect_timeout: None,
        first_byte_timeout: None,
        idle_timeout: None,
        total_timeout: None,
        model_timeouts: BTreeMap::new(),
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
mod tests;
