//! The configured providers, each with its key and the adapter that speaks its protocol.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use sa_boot::Problem;
use sa_core::{
    job::Lane,
    provider::{Catalog, Kind, Provider},
    repo::Serves,
};
use secrecy::SecretString;

use crate::{
    adapter::{Adapter, Anthropic, Echo, Gemini, Ollama, OpenAi, OpenAiResponses},
    api_key::{self, Environment},
};

/// A key and the variable that would put it to use.
const KEYS_WITHOUT_A_FILE: [(&str, &str); 3] = [
    ("OPENAI_API_KEY", "SA_OPENAI_MODEL"),
    ("ANTHROPIC_API_KEY", "SA_ANTHROPIC_MODEL"),
    ("GEMINI_API_KEY", "SA_GEMINI_MODEL"),
];

/// All providers this process can call.
pub struct Providers {
    catalog: Catalog,
    adapters: BTreeMap<String, Arc<dyn Adapter>>,
    ignored_keys: Vec<String>,
}

impl Providers {
    /// Reads the file, or without one the environment, and finds the keys.
    ///
    /// # Errors
    /// A usage [`Problem`]: an unreadable file, a missing key, an address that is none.
    pub fn load(file: Option<&Path>, environment: Environment) -> Result<Self, Problem> {
        let source = file.map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
        let text = file.map(std::fs::read_to_string).transpose().map_err(|why| {
            Problem::usage(
                format_args!("the providers file {source} cannot be read"),
                why,
                "check --providers (SA_PROVIDERS)",
            )
        })?;
        let catalog = Catalog::load(text.as_deref(), environment).map_err(|why| {
            Problem::usage(
                format_args!("the providers of {source} cannot be used"),
                why,
                format_args!("correct {source}"),
            )
        })?;
        let adapters = catalog
            .providers()
            .iter()
            .map(|provider| Ok((provider.name.clone(), adapter(provider, environment)?)))
            .collect::<Result<_, Problem>>()?;
        let ignored_keys = if file.is_some() { Vec::new() } else { keys_without_model(environment) };
        Ok(Self { catalog, adapters, ignored_keys })
    }

    /// Names and models.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The lanes this process serves.
    #[must_use]
    pub fn serves(&self) -> Serves {
        let lanes = |names: &[String]| names.iter().map(Lane::new).collect();
        let with_fallback = self.catalog.providers().iter().filter(|provider| !provider.fallback.is_empty());
        let fallbacks = with_fallback.map(|provider| (Lane::new(&provider.name), lanes(&provider.fallback))).collect();
        Serves { lanes: self.lanes(), default: self.default_lane(), fallbacks }
    }

    pub(crate) fn default_lane(&self) -> Lane {
        Lane::new(&self.catalog.default_provider().name)
    }

    pub(crate) fn lanes(&self) -> Vec<Lane> {
        self.catalog.providers().iter().map(|provider| Lane::new(&provider.name)).collect()
    }

    pub(crate) fn adapter(&self, name: &str) -> Option<&Arc<dyn Adapter>> {
        self.adapters.get(name)
    }

    /// Says what is odd about the configuration without being wrong.
    pub fn warn(&self) {
        if self.catalog.is_only_echo() {
            tracing::warn!(
                "No provider is configured: every prompt is answered with its own text. Set SA_PROVIDERS, or SA_OPENAI_MODEL and OPENAI_API_KEY."
            );
        }
        for key in &self.ignored_keys {
            tracing::info!(variable = key, "A key is ignored because no model is named for it.");
        }
    }
}

fn adapter(provider: &Provider, environment: Environment) -> Result<Arc<dyn Adapter>, Problem> {
    if provider.kind == Kind::Echo {
        return Ok(Arc::new(Echo));
    }
    let key = api_key::find(provider, environment)?;
    speaking(provider, key).map_err(|why| {
        Problem::usage(
            format_args!("provider {:?} cannot be used", provider.name),
            format_args!("{why:#}"),
            "correct it where the providers are configured",
        )
    })
}

fn speaking(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Arc<dyn Adapter>> {
    Ok(match provider.kind {
        Kind::Openai => Arc::new(OpenAi::new(provider, key)?),
        Kind::OpenaiResponses => Arc::new(OpenAiResponses::new(provider, key)?),
        Kind::Anthropic => Arc::new(Anthropic::new(provider, key)?),
        Kind::Gemini => Arc::new(Gemini::new(provider, key)?),
        Kind::Ollama => Arc::new(Ollama::new(provider, key)?),
        Kind::Echo => Arc::new(Echo),
    })
}

fn keys_without_model(environment: Environment) -> Vec<String> {
    let set = |name: &str| environment(name).is_some_and(|value| !value.trim().is_empty());
    KEYS_WITHOUT_A_FILE
        .iter()
        .filter(|(key, model)| set(key) && !set(model))
        .map(|(key, _)| (*key).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_boot::Exit;

    fn load(text: &str) -> Result<Providers, Problem> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Providers::load(Some(file.path()), &|_| None)
    }

    #[test]
    fn nothing_configured_leaves_echo() {
        let providers = Providers::load(None, &|_| None).unwrap();
        assert!(providers.catalog().is_only_echo());
        assert!(providers.adapter("echo").is_some());
        assert_eq!(providers.serves().lanes, vec![Lane::new("echo")]);
    }

    #[test]
    fn model_without_its_key_is_refused_naming_the_variable() {
        let environment = |name: &str| (name == "SA_OPENAI_MODEL").then(|| "gpt-x".to_owned());
        let problem = Providers::load(None, &environment).err().unwrap();
        assert_eq!(problem.exit(), Exit::Usage);
        assert!(problem.to_string().contains("OPENAI_API_KEY is not set"), "{problem}");
    }

    #[test]
    fn key_without_its_model_is_ignored_and_told() {
        let environment = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        let providers = Providers::load(None, &environment).unwrap();
        assert!(providers.catalog().is_only_echo());
        assert_eq!(providers.ignored_keys, ["OPENAI_API_KEY"]);
    }

    #[test]
    fn every_kind_has_its_adapter_and_its_own_way_to_a_key() {
        for kind in ["openai", "openai-responses", "anthropic", "gemini"] {
            let file =
                format!("[[provider]]\nname = \"p\"\nkind = \"{kind}\"\nbase_url = \"http://h\"\nmodels = [\"m\"]");
            let problem = load(&file).err().unwrap();
            assert!(problem.to_string().contains("has no key"), "{kind}: {problem}");
            assert!(load(&format!("{file}\nauth = \"none\"")).unwrap().adapter("p").is_some(), "{kind}");
        }
        let ollama = "[[provider]]\nname = \"p\"\nkind = \"ollama\"\nbase_url = \"http://h\"\nmodels = [\"m\"]";
        assert!(load(ollama).unwrap().adapter("p").is_some(), "a server at home asks for no key");
        let cloud = load(&format!("{ollama}\napi_key_env = \"NO_SUCH_KEY\"")).err().unwrap();
        assert!(cloud.to_string().contains("NO_SUCH_KEY is not set"), "{cloud}");
    }

    /// What a reader copies from the page works.
    #[test]
    fn the_documented_file_is_a_providers_file() {
        let page = include_str!("../../../docs/providers.md");
        let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let catalog = Catalog::load(Some(file), |_| None).unwrap();
        let slow = catalog.get("big").unwrap().timeouts("gpt-slow");
        assert_eq!((slow.total.as_secs(), slow.first_byte.as_secs(), slow.idle.as_secs()), (840, 300, 60));
        assert_eq!(catalog.get("home").unwrap().kind, Kind::Ollama);
    }

    #[test]
    fn unreadable_and_malformed_files_are_usage_errors_that_name_the_file() {
        let problem = Providers::load(Some(Path::new("/nowhere/providers.toml")), &|_| None).err().unwrap();
        assert_eq!(problem.exit(), Exit::Usage);
        assert!(problem.to_string().contains("/nowhere/providers.toml"), "{problem}");
        assert_eq!(load("provider = 7").err().unwrap().exit(), Exit::Usage);
        assert_eq!(
            load("[[provider]]\nname = \"p\"\nkind = \"telepathy\"\nmodels = [\"m\"]").err().unwrap().exit(),
            Exit::Usage
        );
    }
}
