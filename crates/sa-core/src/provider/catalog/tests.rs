use super::*;
use crate::provider::Auth;

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
    ExecutionOptions { model: owned(model), prefer_provider: owned(provider), depth: None, router_model: owned(router) }
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

#[test]
fn names_models_and_fallbacks_have_their_bounds() {
    let loads = |name: &str, model: &str, fallback: &str| {
        let text = format!(
            "[[provider]]\nname = \"{name}\"\nkind = \"echo\"\nmodels = [\"{model}\"]\nfallback = [{fallback}]
             [[provider]]\nname = \"other\"\nkind = \"echo\"\nmodels = [\"m\"]"
        );
        Catalog::load(Some(&text), |_| None).is_ok()
    };
    assert!(loads("Az9-_.", "m", ""));
    assert!(loads(&"n".repeat(64), &"m".repeat(128), "\"other\""));
    for (name, model, fallback) in [
        ("", "m", ""),
        (&"n".repeat(65), "m", ""),
        ("n/", "m", ""),
        ("n", "", ""),
        ("n", &"m".repeat(129), ""),
        ("n", "m", "\"n\""),
        ("n", "m", "\"nobody\""),
    ] {
        assert!(!loads(name, model, fallback), "{name:?} {model:?} {fallback:?}");
    }
}

#[test]
fn one_default_at_most_and_without_one_the_first() {
    let providers = |first: &str, second: &str| {
        let one = |name, rest| format!("[[provider]]\nname = \"{name}\"\nkind = \"echo\"\nmodels = [\"m\"]\n{rest}\n");
        Catalog::load(Some(&(one("a", first) + &one("b", second))), |_| None)
    };
    let default = "default = true";
    assert_eq!(providers("", "").unwrap().default_provider().name, "a");
    assert_eq!(providers("", default).unwrap().default_provider().name, "b");
    let error = providers(default, default).unwrap_err().to_string();
    assert!(error.contains("\"a\" and \"b\" both"), "{error}");
}

#[test]
fn a_file_is_taken_as_it_stands() {
    let catalog = Catalog::load(Some(FILE), |_| None).unwrap();
    assert!(!catalog.is_only_echo());
    let big = catalog.get("big").unwrap();
    assert_eq!(
        (big.name.as_str(), big.total_timeout, big.idle_timeout),
        ("big", Some(std::time::Duration::from_secs(90)), None)
    );
    assert_eq!(catalog.get("nobody").map(|provider| &provider.name), None);
    assert_eq!(catalog.models().collect::<Vec<_>>(), ["large", "shared", "tiny", "shared"]);
}

/// An option that cannot be meant is refused with what could be.
#[test]
fn a_refused_option_is_told_what_there_is() {
    let catalog = Catalog::load(Some(FILE), |_| None).unwrap();
    let reason = |asked: &ExecutionOptions| catalog.lane_for(asked).unwrap_err().reason;
    assert_eq!(
        reason(&options(Some("none"), None, None)),
        "no provider has \"none\"; configured are large, shared, tiny, shared"
    );
    assert_eq!(reason(&options(None, Some("none"), None)), "there is no provider \"none\"; configured are big, small");
    assert_eq!(
        reason(&options(Some("large"), Some("small"), None)),
        "\"small\" does not have \"large\"; it has tiny, shared"
    );
}

/// A job with a router waits in the router's lane, and is answered by whom its other options say.
#[test]
fn the_routers_lane_does_not_answer() {
    let catalog = Catalog::load(Some(FILE), |_| None).unwrap();
    let routed = options(None, None, Some("large"));
    let answer = catalog.model_for(&Lane::new("big"), &routed).map(|(provider, model)| (provider.name.as_str(), model));
    assert_eq!(answer, Some(("small", "tiny")));
}

#[test]
fn each_protocol_is_where_it_usually_is_unless_ollama_is_elsewhere() {
    let of = |set: &[(&'static str, &'static str)]| {
        let set = set.to_vec();
        let env = move |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let catalog = Catalog::load(None, env).unwrap();
        assert!(!catalog.is_only_echo());
        let provider = catalog.default_provider().clone();
        let auth = provider.auth();
        (provider.base_url.unwrap(), auth)
    };
    let usual = |url: &str, auth| (url.to_owned(), auth);
    assert_eq!(
        of(&[("SA_OPENAI_MODEL", "m"), ("OLLAMA_HOST", "box")]),
        usual("https://api.openai.com/v1", Auth::Bearer)
    );
    assert_eq!(of(&[("SA_OLLAMA_MODEL", "m")]), usual("http://127.0.0.1:11434", Auth::None));
    assert_eq!(of(&[("SA_OLLAMA_MODEL", "m"), ("OLLAMA_HOST", " ")]), usual("http://127.0.0.1:11434", Auth::None));
    assert_eq!(of(&[("SA_OLLAMA_MODEL", "m"), ("OLLAMA_HOST", "box")]), usual("http://box:11434", Auth::None));
    assert_eq!(of(&[("SA_OLLAMA_MODEL", "m"), ("OLLAMA_HOST", "box:1")]), usual("http://box:1", Auth::None));
    assert_eq!(of(&[("SA_OLLAMA_MODEL", "m"), ("OLLAMA_HOST", "https://box/x")]), usual("https://box/x", Auth::None));
    assert!(Catalog::load(None, |name| (name == "SA_OPENAI_MODEL").then(|| " ".to_owned())).unwrap().is_only_echo());
}
