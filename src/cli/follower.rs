//! Follows files while a coordinator runs.
//!
//! Guarantees: a separate thread looks at the files. A file system that does not answer holds up no lease, no other
//! file and no end of the process. The follower reports it once, and reads the files again when it answers.
//!
//! Does not guarantee: that a look ends. Until it ends, no other look at the same files begins.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    clock::{Clock as _, SystemClock},
    files::apart,
    telemetry::{FileKind, Files},
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// The follower reports a silent file system when a look takes longer than this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Files that may change while a coordinator runs.
///
/// A look or a read begins after the previous result was reported. So an older content is never reported after a newer one.
pub(super) trait Changing: Clone + Send + 'static {
    const KIND: FileKind;
    /// Whether a change of the files has them read, too. If not, only SIGHUP does.
    const LOOKS: bool = true;
    /// The result of a look or of a read.
    type Look: Send + 'static;

    /// Reads the files if they changed. Blocks.
    fn look(&self) -> Self::Look {
        self.read()
    }

    /// Reads the files, whether they changed or not. Blocks.
    fn read(&self) -> Self::Look;

    /// Reports a result, and why the files were read.
    fn tell(&self, found: Self::Look, reason: &str);

    /// The kinds of files that are not in force.
    fn files(&self) -> &Files;
}

/// Follows files until the process ends.
#[derive(Clone)]
pub(super) struct Follower(Arc<Notify>);

impl Follower {
    /// Follows these files from now on. Must be called inside an actix system.
    pub(super) fn start(files: impl Changing) -> Self {
        let wanted = Arc::new(Notify::new());
        actix::spawn(follow(files, wanted.clone()));
        Self(wanted)
    }

    /// Has the files read now, or as soon as the present look ends. Waits for neither.
    pub(super) fn reload(&self) {
        self.0.notify_one();
    }
}

async fn follow<C: Changing>(files: C, wanted: Arc<Notify>) {
    let mut answers_again = false;
    loop {
        let reason = tokio::select! {
            () = wanted.notified() => Some("SIGHUP"),
            () = sleep(LOOK), if C::LOOKS || answers_again => answers_again.then_some("their file system answers again"),
        };
        let looked_at = files.clone();
        let mut look = std::pin::pin!(apart(move || match reason {
            Some(_) => looked_at.read(),
            None => looked_at.look(),
        }));
        let found = timeout(PATIENCE, &mut look).await;
        answers_again = found.is_err();
        let found = match found {
            Ok(found) => found,
            Err(_) => {
                say_silent(&files);
                look.await
            }
        };
        if let Some(found) = found {
            files.tell(found, reason.unwrap_or("the files changed"));
        }
    }
}

fn say_silent<C: Changing>(files: &C) {
    let fault =
        format!("a look at the files did not end within {PATIENCE:?}: their file system is silent");
    tracing::error!(file = C::KIND.as_str(), fault, "what the files said before counts");
    files.files().refused(C::KIND, &[fault], SystemClock::new().wall_ms());
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    };

    use super::*;

    /// A look waits for a message as long as the file system is silent.
    #[derive(Clone)]
    struct Mount {
        files: Arc<Files>,
        is_silent: Arc<AtomicBool>,
        answers: Arc<Mutex<mpsc::Receiver<()>>>,
        told: Arc<Mutex<Vec<(&'static str, String)>>>,
    }

    impl Mount {
        fn ask(&self) {
            if self.is_silent.load(SeqCst) {
                self.answers.lock().expect("a lock").recv().expect("an answer");
            }
        }
    }

    impl Changing for Mount {
        const KIND: FileKind = FileKind::Access;
        type Look = &'static str;

        fn look(&self) -> Self::Look {
            self.ask();
            "looked"
        }

        fn read(&self) -> Self::Look {
            self.ask();
            "read"
        }

        fn tell(&self, found: Self::Look, reason: &str) {
            if found == "read" {
                self.files.applied(Self::KIND);
            }
            self.told.lock().expect("a lock").push((found, reason.to_owned()));
        }

        fn files(&self) -> &Files {
            &self.files
        }
    }

    #[test]
    fn a_file_system_that_is_silent_is_told_of_and_its_files_are_read_when_it_answers() {
        actix::System::new().block_on(silent());
    }

    async fn silent() {
        let (answer, answers) = mpsc::channel();
        let mount = Mount {
            files: Arc::new(Files::register()),
            is_silent: Arc::default(),
            answers: Arc::new(Mutex::new(answers)),
            told: Arc::default(),
        };
        let follower = Follower::start(mount.clone());
        let told = || mount.told.lock().expect("a lock").clone();
        let eventually = async |so: &dyn Fn() -> bool| {
            let waits = async {
                while !so() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(60), waits).await.expect("it becomes so");
        };
        follower.reload();
        eventually(&|| told() == [("read", "SIGHUP".to_owned())]).await;
        mount.is_silent.store(true, SeqCst);
        follower.reload();
        eventually(&|| !mount.files.not_in_force().is_empty()).await;
        let [silent] = &mount.files.not_in_force()[..] else { panic!("one kind of files") };
        assert!(silent.reason.contains("did not end within 10s"), "{}", silent.reason);
        mount.is_silent.store(false, SeqCst);
        answer.send(()).expect("a look waits");
        let again = ("read", "their file system answers again".to_owned());
        eventually(&|| told().contains(&again)).await;
        assert!(mount.files.not_in_force().is_empty());
    }
}
