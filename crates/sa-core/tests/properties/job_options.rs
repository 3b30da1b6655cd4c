//! Options: written and read back they are the same, a newer API's keys do no harm, and overriding is orderly.

use proptest::prelude::*;
use sa_core::job::ExecutionOptions;
use serde_json::{Map, Value, json};

pub fn any_options() -> impl Strategy<Value = ExecutionOptions> {
    let text = || prop::option::of(any::<String>());
    (text(), text(), prop::option::of(any::<u8>()), text()).prop_map(|(model, prefer_provider, depth, router_model)| {
        ExecutionOptions { model, prefer_provider, depth, router_model }
    })
}

const KEYS: [&str; 4] = ["model", "prefer_provider", "depth", "router_model"];

fn wrong_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        Just(json!(1.5)),
        any::<i64>().prop_filter("a depth", |n| !(0..256).contains(n)).prop_map(|n| json!(n)),
    ]
}

proptest! {
    #[test]
    fn options_written_and_read_back_are_the_same(options in any_options()) {
        let written = serde_json::to_string(&options).unwrap();
        prop_assert_eq!(serde_json::from_str::<ExecutionOptions>(&written).unwrap(), options);
    }

    #[test]
    fn keys_of_a_newer_api_and_nulls_are_passed_over(
        options in any_options(), key in "[a-z_]{1,20}", value in any::<String>(),
    ) {
        let mut row: Map<String, Value> = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
        for known in KEYS {
            row.entry(known).or_insert(Value::Null);
        }
        if !KEYS.contains(&key.as_str()) {
            row.insert(key, json!([{ "deep": value }]));
        }
        prop_assert_eq!(serde_json::from_value::<ExecutionOptions>(row.into()).unwrap(), options);
    }

    #[test]
    fn a_wrong_type_is_never_read_as_something_else(
        options in any_options(), key in prop::sample::select(&KEYS), wrong in wrong_values(),
    ) {
        let mut row = serde_json::to_value(&options).unwrap();
        row[key] = wrong;
        prop_assert!(serde_json::from_value::<ExecutionOptions>(row).is_err());
    }

    #[test]
    fn what_a_patch_names_wins_and_the_rest_stays(old in any_options(), patch in any_options()) {
        let new = old.clone().overridden_by(patch.clone());
        prop_assert!(new.depth() <= ExecutionOptions::MAX_DEPTH);
        let [old, patch, new] = [old, patch, new].map(|options| serde_json::to_value(options).unwrap());
        for key in KEYS {
            let expected = patch.get(key).or(old.get(key));
            prop_assert_eq!(new.get(key), expected, "{}", key);
        }
    }

    #[test]
    fn patches_can_be_merged_first_or_laid_on_one_by_one(a in any_options(), b in any_options(), c in any_options()) {
        let one_by_one = a.clone().overridden_by(b.clone()).overridden_by(c.clone());
        prop_assert_eq!(one_by_one, a.clone().overridden_by(b.overridden_by(c)));
        prop_assert_eq!(a.clone().overridden_by(ExecutionOptions::default()), a.clone());
        prop_assert_eq!(ExecutionOptions::default().overridden_by(a.clone()), a);
    }
}
