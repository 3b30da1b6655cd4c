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
