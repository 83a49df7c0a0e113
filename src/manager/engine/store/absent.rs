//! Replaces a kind of store that this build lacks.

use super::kind::{Opened, Opening, Surroundings};
use crate::settings::{NotBuilt, Settings};

pub(super) async fn open(
    settings: &Settings,
    _surroundings: &Surroundings,
    _opening: Opening,
) -> anyhow::Result<Opened> {
    Err(NotBuilt(settings.store.kind.as_str()).into())
}
