//! A small disk: a tmpfs of the run's own, which can be filled, copied and put back.
//!
//! It is memory, so nothing is shown here about power failures; that is the part of the crash tests.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// More than a run of some minutes writes.
const SIZE: &str = "size=192m";

#[derive(Debug)]
pub struct Disk(PathBuf);

fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().expect("it starts");
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

impl Disk {
    pub fn mount(path: &Path) -> Self {
        fs::create_dir_all(path).expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", SIZE, "tmpfs", text(path)]);
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Takes every byte that is left; what is asked for later fails.
    pub fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file");
        let block = vec![1_u8; 1 << 20];
        let mut length = block.len();
        while length > 0 {
            if file.write_all(&block[..length]).is_err() {
                length /= 4;
            }
        }
    }

    pub fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.0).expect("a disk").f_bavail == 0
    }

    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    /// Keeps what is on it now, beside it. Nobody may write meanwhile.
    pub fn snapshot(&self) {
        let copy = self.0.with_extension("snapshot");
        let _ = fs::remove_dir_all(&copy);
        run("cp", &["-a", text(&self.0), text(&copy)]);
    }

    /// Removes everything.
    pub fn clear(&self) {
        run("find", &[text(&self.0), "-mindepth", "1", "-delete"]);
    }

    /// Goes back to what was kept.
    pub fn restore(&self) {
        let copy = self.0.with_extension("snapshot");
        self.clear();
        run("cp", &["-a", &format!("{}/.", text(&copy)), text(&self.0)]);
    }
}
