use super::*;

const BEAT: Duration = Duration::from_secs(30);
const UP: Duration = Duration::from_secs(3600);
const LIVING: Sight = Sight::Present { start_time: 42, state: 'S' };

fn here() -> Here {
    Here { machine_id: Some("machine".into()), boot_id: Some("boot".into()), pid_namespace: Some(1) }
}

fn process() -> Process {
    let Here { machine_id, boot_id, pid_namespace } = here();
    Process { machine_id, boot_id, pid: 7, pid_namespace, start_time: Some(42), beat: BEAT }
}

fn of(process: &Process, silent_for: Duration, sight: Sight) -> Option<Death> {
    proof_of_death(process, silent_for, &here(), UP, sight)
}

#[test]
fn on_the_same_boot_the_process_itself_is_looked_for() {
    let ended = Some(Death::ProcessEnded);
    let present = |start_time, state| Sight::Present { start_time, state };
    for (sight, expected) in [
        (Sight::Absent, ended),
        (Sight::Unclear, None),
        (present(42, 'S'), None),
        (present(42, 'R'), None),
        (present(42, 'D'), None),
        (present(42, 'T'), None),
        (present(42, 'Z'), ended),
        (present(42, 'X'), ended),
        (present(43, 'S'), ended),
        (present(41, 'R'), ended),
    ] {
        for silent_for in [Duration::ZERO, BEAT, Duration::MAX] {
            assert_eq!(of(&process(), silent_for, sight), expected, "{sight:?}");
        }
    }
}

#[test]
fn another_machine_or_namespace_is_never_proven_dead() {
    let elsewhere = Process { machine_id: Some("another".into()), ..process() };
    let rebooted = Process { boot_id: Some("another".into()), ..elsewhere.clone() };
    let contained = Process { pid_namespace: Some(2), ..process() };
    for process in [elsewhere, rebooted, contained] {
        for sight in [Sight::Absent, Sight::Present { start_time: 1, state: 'Z' }] {
            assert_eq!(of(&process, Duration::MAX, sight), None, "{process:?}");
        }
    }
}

#[test]
fn what_is_not_known_proves_nothing() {
    let unknown = [
        Process { machine_id: None, ..process() },
        Process { boot_id: None, ..process() },
        Process { pid_namespace: None, ..process() },
    ];
    for process in unknown {
        assert_eq!(of(&process, Duration::MAX, Sight::Absent), None, "{process:?}");
    }
    for here in [
        Here { machine_id: None, ..here() },
        Here { boot_id: None, ..here() },
        Here { pid_namespace: None, ..here() },
        Here::default(),
    ] {
        assert_eq!(proof_of_death(&process(), Duration::MAX, &here, UP, Sight::Absent), None, "{here:?}");
    }
    let nameless = Process { start_time: None, ..process() };
    assert_eq!(of(&nameless, Duration::MAX, LIVING), None);
    assert_eq!(of(&nameless, BEAT, Sight::Absent), Some(Death::ProcessEnded), "its start is not asked for");
    let nowhere = Process { machine_id: None, boot_id: None, ..process() };
    assert_eq!(proof_of_death(&nowhere, Duration::MAX, &Here::default(), UP, Sight::Absent), None, "two unknowns");
}

#[test]
fn another_boot_is_proof_only_if_the_last_pulse_is_older_than_this_one() {
    let before = Process { boot_id: Some("earlier".into()), ..process() };
    let second = Duration::from_secs(1);
    assert_eq!(of(&before, UP + second, LIVING), Some(Death::MachineRestarted), "its pid may be anybody's by now");
    assert_eq!(of(&before, UP + second, Sight::Unclear), Some(Death::MachineRestarted));
    assert_eq!(of(&before, UP, Sight::Absent), None, "not older than this boot");
    assert_eq!(of(&before, BEAT, Sight::Absent), None, "a clone of this machine that lives");
}

#[test]
fn a_clone_that_lives_is_not_dead_because_this_machine_has_just_started() {
    let clone = Process { boot_id: Some("the clone's".into()), ..process() };
    let after = |silent_for| proof_of_death(&clone, silent_for, &here(), Duration::from_secs(5), Sight::Absent);
    assert_eq!(after(BEAT), None, "it beats, and its next beat is due now");
    assert_eq!(after(BEAT * 2), None);
    assert_eq!(after(BEAT * 3), Some(Death::MachineRestarted));
}
