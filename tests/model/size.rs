//! How far the models go.

/// As `MODEL` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// What a debug build has the time for.
    Small,
    /// A release build, in three minutes on two cores.
    Ci,
    /// A release build, in an hour or so.
    Full,
}

pub fn size() -> Size {
    match std::env::var("MODEL").as_deref() {
        Ok("ci") => Size::Ci,
        Ok("full") => Size::Full,
        Ok(other) => panic!("MODEL is ci or full, not {other:?}"),
        Err(_) => Size::Small,
    }
}
