//! Who is proven dead: never without evidence, and never because less is known.

use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use sa_core::death::{Death, Here, Process, Sight, proof_of_death};

/// Few values, so that they often agree.
fn word() -> impl Strategy<Value = Option<String>> {
    option::weighted(0.9, prop_oneof![Just("a".to_owned()), Just("b".to_owned())])
}

fn number() -> impl Strategy<Value = Option<u64>> {
    option::weighted(0.9, 1..3_u64)
}

fn span() -> impl Strategy<Value = Duration> {
    (0..400_u64).prop_map(Duration::from_secs)
}

fn process() -> impl Strategy<Value = Process> {
    (word(), word(), number(), number(), 1..60_u64).prop_map(
        |(machine_id, boot_id, pid_namespace, start_time, beat)| Process {
            machine_id,
            boot_id,
            pid: 7,
            pid_namespace,
            start_time,
            beat: Duration::from_secs(beat),
        },
    )
}

fn here() -> impl Strategy<Value = Here> {
    (word(), word(), number()).prop_map(|(machine_id, boot_id, pid_namespace)| Here {
        machine_id,
        boot_id,
        pid_namespace,
    })
}

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![
        Just(Sight::Absent),
        Just(Sight::Unclear),
        (1..3_u64, prop::sample::select(vec!['R', 'S', 'D', 'T', 'Z', 'X']))
            .prop_map(|(start_time, state)| Sight::Present { start_time, state }),
    ]
}

/// What is to be seen of a process that is gone.
fn is_gone(process: &Process, sight: Sight) -> bool {
    match sight {
        Sight::Absent => true,
        Sight::Unclear => false,
        Sight::Present { start_time, state } => {
            matches!(state, 'Z' | 'X') || process.start_time.is_some_and(|start| start != start_time)
        }
    }
}

/// One fact less about either side.
fn forgetful(process: &Process, here: &Here) -> Vec<(Process, Here)> {
    let (process, here) = (process.clone(), here.clone());
    vec![
        (Process { machine_id: None, ..process.clone() }, here.clone()),
        (Process { boot_id: None, ..process.clone() }, here.clone()),
        (Process { pid_namespace: None, ..process.clone() }, here.clone()),
        (Process { start_time: None, ..process.clone() }, here.clone()),
        (process.clone(), Here { machine_id: None, ..here.clone() }),
        (process.clone(), Here { boot_id: None, ..here.clone() }),
        (process, Here { pid_namespace: None, ..here }),
    ]
}

proptest! {
    /// Death has its evidence: the same machine, and either its process seen gone on this boot in this namespace, or a last
    /// pulse from before this boot that no living clone could have left so long.
    #[test]
    fn nobody_is_dead_without_evidence(
        process in process(), here in here(), silent_for in span(), up_for in span(), sight in sight()
    ) {
        let death = proof_of_death(&process, silent_for, &here, up_for, sight);
        if death.is_some() {
            prop_assert!(process.machine_id.is_some() && process.machine_id == here.machine_id);
            prop_assert!(process.boot_id.is_some() && here.boot_id.is_some());
        }
        match death {
            None => {}
            Some(Death::MachineRestarted) => {
                prop_assert_ne!(&process.boot_id, &here.boot_id);
                prop_assert!(silent_for > up_for && silent_for >= process.beat * 3);
            }
            Some(Death::ProcessEnded) => {
                prop_assert_eq!(&process.boot_id, &here.boot_id);
                prop_assert!(process.pid_namespace.is_some() && process.pid_namespace == here.pid_namespace);
                prop_assert!(is_gone(&process, sight));
            }
        }
    }

    /// A process that lives is never proven dead by whoever is where it is, however long it is silent and whatever of its
    /// facts is missing; nor is one on a clone whose beats come.
    #[test]
    fn the_living_are_never_dead(
        here in here(), start_time in 1..3_u64, silent_for in span(), up_for in span(), beat in 1..60_u64, boot in word()
    ) {
        let Here { machine_id, boot_id, pid_namespace } = here.clone();
        let beat = Duration::from_secs(beat);
        let alive = Process { machine_id, boot_id, pid: 7, pid_namespace, start_time: Some(start_time), beat };
        let sight = Sight::Present { start_time, state: 'S' };
        for (alive, here) in forgetful(&alive, &here).into_iter().chain([(alive.clone(), here.clone())]) {
            prop_assert_eq!(proof_of_death(&alive, silent_for, &here, up_for, sight), None);
        }
        let clone = Process { boot_id: boot.filter(|boot| Some(boot) != here.boot_id.as_ref()), ..alive };
        for sight in [Sight::Absent, Sight::Unclear, sight] {
            prop_assert_eq!(proof_of_death(&clone, silent_for.min(beat * 2), &here, up_for, sight), None);
        }
    }

    /// To know less never makes anybody dead.
    #[test]
    fn a_missing_fact_proves_nothing(
        process in process(), here in here(), silent_for in span(), up_for in span(), sight in sight()
    ) {
        if proof_of_death(&process, silent_for, &here, up_for, sight).is_none() {
            for (process, here) in forgetful(&process, &here) {
                prop_assert_eq!(proof_of_death(&process, silent_for, &here, up_for, sight), None);
            }
            prop_assert_eq!(proof_of_death(&process, silent_for, &here, up_for, Sight::Unclear), None);
        }
    }
}
