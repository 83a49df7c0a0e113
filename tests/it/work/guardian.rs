//! The guardian, without a coordinator: deadlines, wills, deaths.

use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;
use tenure::{
    clock::boottime_ms,
    worker::{
        PrivateDir,
        guardian::{Guardian, RunError, Slot, Task, Why},
    },
};

use crate::work::process::{PATIENCE, lives, ms, number_in, signal, within};

/// A guardian, and a place for what its programs write.
struct Stand {
    guardian: Guardian,
    _private: PrivateDir,
    dir: TempDir,
}

impl Stand {
    async fn new() -> Self {
        let private = PrivateDir::new().expect("a directory");
        let program = env!("CARGO_BIN_EXE_tenure").into();
        let guardian = Guardian::start_program(program, &private).await.expect("it comes up");
        Self { guardian, _private: private, dir: tempfile::tempdir().expect("a directory") }
    }

    fn slot(&self) -> Slot {
        self.guardian.slot(ms(300), ms(100))
    }

    /// A line for the shell, which finds the directory as `$D`.
    fn sh(&self, line: &str) -> Task {
        let argv = ["/bin/sh", "-c", line].map(Into::into).to_vec();
        let env = vec![("D".to_owned(), self.dir.path().into())];
        Task { argv, env, ..Task::default() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test]
async fn a_program_ends_with_its_own_code_and_signal() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let exit = slot.run(stand.sh("exit 42")).await.expect("it runs").exited().await;
    assert_eq!((exit.code, exit.signal, exit.why), (Some(42), None, None));
    let exit = slot.run(stand.sh("kill -9 $$")).await.expect("it runs").exited().await;
    assert_eq!((exit.code, exit.signal, exit.why), (None, Some(9), None));
    let missing = Task { argv: vec!["/no/such/program".into()], ..Task::default() };
    assert_eq!(slot.run(missing).await.expect("tried").exited().await.code, Some(127));
    let barred = Task { argv: vec!["/dev/null".into()], ..Task::default() };
    assert_eq!(slot.run(barred).await.expect("tried").exited().await.code, Some(126));
}

#[tokio::test]
async fn one_that_ignores_sigterm_is_dead_before_the_deadline_and_had_all_the_time_there_was() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let deadline = boottime_ms() + 1500;
    slot.deadline(Some(deadline));
    let mut running =
        slot.run(stand.sh("trap '' TERM; while :; do sleep 0.02; done")).await.expect("it runs");
    assert!(matches!(slot.run(stand.sh(":")).await, Err(RunError::Busy)));
    let exit = running.exited().await;
    let now = boottime_ms();
    assert_eq!((exit.signal, exit.why), (Some(9), Some(Why::Deadline)));
    assert!(now <= deadline, "{} ms late", now - deadline);
    assert!(now >= deadline - 150, "{} ms early", deadline - now);
    assert!(matches!(slot.run(stand.sh(":")).await, Err(RunError::TooLate)));
}

#[tokio::test]
async fn renewals_keep_it_alive_and_a_stop_ends_it() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let mut running = slot
        .run(stand.sh("trap 'exit 3' TERM; while :; do sleep 0.02; done"))
        .await
        .expect("it runs");
    for _ in 0..12 {
        slot.deadline(Some(boottime_ms() + 700));
        tokio::time::sleep(ms(100)).await;
    }
    assert!(lives(running.pid));
    slot.stop(ms(300));
    let exit = running.exited().await;
    assert_eq!((exit.code, exit.why), (Some(3), Some(Why::Asked)));
}

#[tokio::test]
async fn the_whole_group_ends_and_who_left_it_too() {
    let stand = Stand::new().await;
    let (slot, other) = (stand.slot(), stand.slot());
    let mut by = other.run(stand.sh("sleep 60")).await.expect("it runs");
    let line = "sleep 60 & echo $! > $D/grandchild; \
                setsid sh -c 'echo $$ > $D/stray; exec sleep 60' & wait";
    let mut running = slot.run(stand.sh(line)).await.expect("it runs");
    let grandchild = number_in(&stand.path("grandchild")).await;
    let stray = number_in(&stand.path("stray")).await;
    slot.stop(ms(300));
    running.exited().await;
    assert!(!lives(grandchild) && !lives(stray));
    assert!(lives(by.pid), "another slot's program is not touched");
    other.stop(ms(300));
    by.exited().await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let line = "sh -c 'trap \"\" TERM; echo $$ > $D/left; while :; do sleep 0.02; done' & \
                while ! test -s $D/left; do sleep 0.02; done; exit 5";
    let exit = slot.run(stand.sh(line)).await.expect("it runs").exited().await;
    let left = number_in(&stand.path("left")).await;
    assert_eq!((exit.code, exit.why), (Some(5), None));
    assert!(!lives(left));
}

#[tokio::test]
async fn a_limit_kills() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let task = Task { limit_ms: Some(200), ..stand.sh("sleep 60 & sleep 60") };
    let from = boottime_ms();
    let exit = slot.run(task).await.expect("it runs").exited().await;
    assert_eq!((exit.signal, exit.why), (Some(9), Some(Why::Limit)));
    assert!(boottime_ms() - from < 1500, "{}", boottime_ms() - from);
}

#[tokio::test]
async fn a_will_is_run_before_the_deadline_after_the_program_and_only_once() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let deadline = boottime_ms() + 2000;
    slot.deadline(Some(deadline));
    slot.will(Some(Task {
        limit_ms: Some(500),
        ..stand.sh("cut -d' ' -f1 /proc/uptime >> $D/will")
    }));
    let line = "trap 'echo over > $D/order; exit 0' TERM; while :; do sleep 0.02; done";
    let mut running = slot.run(stand.sh(line)).await.expect("it runs");
    assert_eq!(running.exited().await.why, Some(Why::Deadline));
    assert!(slot.willed().await.success());
    assert!(boottime_ms() <= deadline);
    assert_eq!(
        (read(&stand.path("order")).as_str(), read(&stand.path("will")).lines().count()),
        ("over\n", 1)
    );
    let withdrawn = stand.slot();
    withdrawn.will(Some(Task { limit_ms: Some(100), ..stand.sh("echo > $D/withdrawn") }));
    withdrawn.will(None);
    withdrawn.deadline(Some(boottime_ms() + 300));
    tokio::time::sleep(ms(600)).await;
    assert!(!stand.path("withdrawn").exists());
}

#[tokio::test]
async fn a_will_that_hangs_is_killed_before_the_deadline() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let deadline = boottime_ms() + 1000;
    slot.deadline(Some(deadline));
    slot.will(Some(Task { limit_ms: Some(300), ..stand.sh("echo $$ > $D/hangs; sleep 60") }));
    let exit = slot.willed().await;
    assert_eq!(exit.signal, Some(9));
    assert!(boottime_ms() <= deadline && !lives(number_in(&stand.path("hangs")).await));
}

#[tokio::test]
async fn when_the_agent_goes_everything_is_stopped_and_wills_are_run() {
    let stand = Stand::new().await;
    let (slot, idle) = (stand.slot(), stand.slot());
    let running =
        slot.run(stand.sh("trap '' TERM; while :; do sleep 0.02; done")).await.expect("it runs");
    idle.will(Some(Task { limit_ms: Some(1000), ..stand.sh("sleep 0.2; echo done > $D/will") }));
    let guardian = stand.guardian.pid();
    stand.guardian.clone().finish().await;
    assert!(!lives(running.pid) && !lives(guardian));
    assert_eq!(read(&stand.path("will")), "done\n");
}

#[tokio::test]
async fn when_the_guardian_is_killed_what_it_ran_is_dead_at_once_and_the_agent_knows() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let line = "sleep 60 & echo $! > $D/grandchild; \
                setsid sh -c 'echo $$ > $D/stray; exec sleep 60' & wait";
    let mut running = slot.run(stand.sh(line)).await.expect("it runs");
    let grandchild = number_in(&stand.path("grandchild")).await;
    let stray = number_in(&stand.path("stray")).await;
    signal(stand.guardian.pid(), Signal::KILL);
    stand.guardian.gone().await;
    assert_eq!(running.exited().await.why, Some(Why::GuardianGone));
    let all = [running.pid, grandchild, stray];
    assert!(within(ms(1000), async || !all.into_iter().any(lives)).await);
    assert!(matches!(slot.run(stand.sh(":")).await, Err(RunError::GuardianGone)));
}

/// A chain of strays, each of which starts the next in a session of its own and ends, so that at most times one of
/// them has just been started.
#[tokio::test]
async fn when_the_guardian_is_killed_nothing_that_forks_on_escapes_and_only_then_is_it_reported() {
    for round in 0..10 {
        let stand = Stand::new().await;
        let slot = stand.slot();
        let chain = "cat > $D/next <<'END'\necho . >> $D/steps\nsetsid /bin/sh $D/next &\nEND\n\
                     for n in 1 2 3; do setsid /bin/sh $D/next & done; sleep 60";
        let mut running = slot.run(stand.sh(chain)).await.expect("it runs");
        let steps = stand.path("steps");
        assert!(within(PATIENCE, async || read(&steps).len() > 40).await, "round {round}");
        signal(stand.guardian.pid(), Signal::KILL);
        assert_eq!(running.exited().await.why, Some(Why::GuardianGone));
        assert!(!lives(running.pid), "round {round}");
        let at_the_report = read(&steps).len();
        tokio::time::sleep(ms(100)).await;
        assert_eq!(read(&steps).len(), at_the_report, "round {round}: something lived on");
    }
}

#[tokio::test]
async fn when_the_guardian_stands_still_the_agent_kills_before_the_deadline() {
    let stand = Stand::new().await;
    let slot = stand.guardian.slot(ms(300), ms(200));
    let deadline = boottime_ms() + 1000;
    slot.deadline(Some(deadline));
    let line = "setsid sh -c 'echo $$ > $D/stray; exec sleep 60' & while :; do sleep 0.02; done";
    let mut running = slot.run(stand.sh(line)).await.expect("it runs");
    let stray = number_in(&stand.path("stray")).await;
    signal(stand.guardian.pid(), Signal::STOP);
    assert!(within(PATIENCE, async || !lives(running.pid) && !lives(stray)).await);
    assert!(boottime_ms() <= deadline);
    // It was woken, and goes on: nobody else has to.
    running.exited().await;
    let next = stand.slot();
    signal(stand.guardian.pid(), Signal::STOP);
    let ran = tokio::time::timeout(PATIENCE, next.run(stand.sh("exit 7"))).await;
    let mut ran = ran.expect("it answers").expect("it runs");
    assert_eq!(ran.exited().await.code, Some(7));
    signal(stand.guardian.pid(), Signal::STOP);
    drop(slot);
    tokio::time::timeout(PATIENCE, stand.guardian.clone().finish()).await.expect("it ends");
}

#[tokio::test]
async fn no_signal_ends_it_while_it_has_an_agent() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    let running = slot.run(stand.sh("while :; do sleep 0.02; done")).await.expect("it runs");
    for kind in [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT, Signal::USR1, Signal::TSTP] {
        signal(stand.guardian.pid(), kind);
    }
    tokio::time::sleep(ms(200)).await;
    assert!(lives(stand.guardian.pid()) && lives(running.pid));
    slot.stop(ms(0));
    assert!(within(PATIENCE, async || !lives(running.pid)).await);
}

#[tokio::test]
async fn a_guardian_that_was_stopped_hears_the_newest_deadline_before_it_acts() {
    let stand = Stand::new().await;
    let slot = stand.slot();
    slot.deadline(Some(boottime_ms() + 800));
    let running = slot.run(stand.sh("while :; do sleep 0.02; done")).await.expect("it runs");
    signal(stand.guardian.pid(), Signal::STOP);
    for _ in 0..12 {
        slot.deadline(Some(boottime_ms() + 800));
        tokio::time::sleep(ms(100)).await;
    }
    signal(stand.guardian.pid(), Signal::CONT);
    slot.deadline(Some(boottime_ms() + 5000));
    tokio::time::sleep(ms(300)).await;
    assert!(lives(running.pid));
}
