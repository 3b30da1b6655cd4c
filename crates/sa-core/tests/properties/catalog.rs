//! Lanes and models: what is accepted at enqueue can be answered by a worker of the same configuration.

use proptest::prelude::*;
use sa_core::job::{ExecutionOptions, Lane};
use sa_core::provider::Catalog;

const MODELS: [&str; 4] = ["m0", "m1", "m2", "m3"];

fn catalogs() -> impl Strategy<Value = Catalog> {
    let models = prop::sample::subsequence(&MODELS, 1..=MODELS.len());
    (prop::collection::vec(models.prop_shuffle(), 1..4), prop::option::of(0..4_usize)).prop_map(
        |(providers, default)| {
            let one = |(n, models): (usize, &Vec<&str>)| {
                let default = default == Some(n);
                format!("[[provider]]\nname = \"p{n}\"\nkind = \"echo\"\nmodels = {models:?}\ndefault = {default}\n")
            };
            let file: String = providers.iter().enumerate().map(one).collect();
            Catalog::load(Some(&file), |_| None).unwrap()
        },
    )
}

/// Options that name what may or may not be configured.
fn options() -> impl Strategy<Value = ExecutionOptions> {
    let model = || prop::option::of(prop::sample::select(vec!["m0", "m1", "m2", "m3", "m4"]).prop_map(str::to_owned));
    let provider = prop::option::of(prop::sample::select(vec!["p0", "p1", "p2", "p3"]).prop_map(str::to_owned));
    (model(), provider, model()).prop_map(|(model, prefer_provider, router_model)| ExecutionOptions {
        model,
        prefer_provider,
        depth: None,
        router_model,
    })
}

proptest! {
    #[test]
    fn a_job_that_is_accepted_can_be_answered_as_it_was_asked(catalog in catalogs(), options in options()) {
        if let Ok(lane) = catalog.lane_for(&options) {
            let (provider, model) = catalog.model_for(&lane, &options).expect("what is accepted has a model");
            prop_assert!(provider.models.iter().any(|known| known == model));
            prop_assert!(options.model.as_deref().is_none_or(|asked| asked == model));
            prop_assert!(options.prefer_provider.as_deref().is_none_or(|asked| asked == provider.name));
            let by_a_router = |router: &String| catalog.get(lane.as_str()).unwrap().models.contains(router);
            prop_assert!(options.router_model.as_ref().map_or(provider.name == lane.as_str(), by_a_router));
            // A row of plain SQL names no lane and is answered by the same.
            let (of_plain, its_model) = catalog.model_for(&Lane::default(), &options).unwrap();
            prop_assert_eq!((of_plain.name.as_str(), its_model), (provider.name.as_str(), model));
        }
    }

    #[test]
    fn a_job_is_refused_only_for_an_option_that_cannot_be_met(catalog in catalogs(), options in options()) {
        let listed = |model: &String| catalog.models().any(|known| known == model);
        let known = options.model.iter().chain(&options.router_model).all(listed);
        let preferred = options.prefer_provider.as_ref().map(|name| catalog.get(name));
        let meets = |model: &String| preferred.flatten().is_none_or(|provider| provider.models.contains(model));
        let can_be_met = known && !matches!(preferred, Some(None)) && options.model.as_ref().is_none_or(meets);
        match catalog.lane_for(&options) {
            Ok(_) => prop_assert!(can_be_met),
            Err(error) => {
                prop_assert!(!can_be_met);
                let named = match error.field {
                    "options.model" => &options.model,
                    "options.router_model" => &options.router_model,
                    "options.prefer_provider" => &options.prefer_provider,
                    other => panic!("{other} is no option of a job"),
                };
                prop_assert!(named.is_some(), "{} was not asked for", error.field);
            }
        }
    }
}
