//! Ids: whatever spelling comes in, one goes out.

use proptest::prelude::*;
use sa_core::id::{JobId, OrgId, PromptId, ResponseId};
use uuid::Uuid;

fn uuids() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

proptest! {
    #[test]
    fn an_id_has_one_spelling_however_it_was_spelled(uuid in uuids()) {
        let id = JobId::from_uuid(uuid);
        let text = id.to_string();
        prop_assert_eq!(text.len(), 36);
        let good = |(n, byte): (usize, u8)| match [8, 13, 18, 23].contains(&n) {
            true => byte == b'-',
            false => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        };
        prop_assert!(text.bytes().enumerate().all(good));
        let (bare, upper) = (text.replace('-', ""), text.to_uppercase());
        for spelling in [text.clone(), upper, bare, format!("{{{text}}}"), format!("urn:uuid:{text}")] {
            let read: JobId = spelling.parse().unwrap();
            prop_assert_eq!((read, read.to_string()), (id, text.clone()));
        }
        prop_assert_eq!(serde_json::to_value(id).unwrap(), serde_json::json!(text));
        prop_assert_eq!(serde_json::from_value::<JobId>(serde_json::json!(text)).unwrap(), id);
    }

    #[test]
    fn what_is_read_as_an_id_is_written_as_one(text in "\\PC{0,40}|[0-9a-fA-F-]{30,40}") {
        if let Ok(id) = text.parse::<JobId>() {
            prop_assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        }
    }

    #[test]
    fn a_job_has_one_answer_and_no_other_job_has_it(prompt in uuids(), job in uuids(), other in uuids()) {
        let prompt = PromptId::from_uuid(prompt);
        let answer = |job| ResponseId::of(prompt, JobId::from_uuid(job));
        prop_assert_eq!(answer(job), answer(job));
        prop_assert_eq!(answer(job) == answer(other), job == other);
    }

    #[test]
    fn the_number_of_an_organisation_is_kept_whole(number in any::<u64>()) {
        prop_assert_eq!(OrgId(number).to_string().parse::<OrgId>().unwrap(), OrgId(number));
        prop_assert_eq!(serde_json::to_string(&OrgId(number)).unwrap(), number.to_string());
    }
}
