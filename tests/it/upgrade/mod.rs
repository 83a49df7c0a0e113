//! This program and the one of the release before it (`previous` names it, `make previous` builds it): side by side on one
//! store, one after the other on one directory, forwards and back.

mod calls;
mod embedded;
mod level;
mod sessions;
mod shared;
mod told;
mod worker;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A version of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// The release before this one.
    Previous,
    /// What is tested.
    This,
}

impl Version {
    fn program(self) -> PathBuf {
        let this = Path::new(env!("CARGO_BIN_EXE_tenure"));
        if self == Self::This {
            return this.to_owned();
        }
        let name = include_str!("previous").trim();
        let target = this.ancestors().nth(2).expect("the target directory");
        let program = target.join("previous").join(name).join("tenure");
        assert!(
            program.is_file(),
            "{} is missing; `make previous` builds the program of {name}",
            program.display()
        );
        program
    }

    fn command(self) -> Command {
        Command::new(self.program())
    }
}
