//! In the place of a kind of store that this build lacks.

use super::{Opened, Surroundings};
use crate::{
    settings::{NotBuilt, Settings},
    store::{Fresh, Witness},
};

pub(super) async fn open(
    settings: &Settings,
    _surroundings: &Surroundings,
    _fresh: Fresh,
    _witness: Option<Witness>,
) -> anyhow::Result<Opened> {
    Err(NotBuilt(settings.store.kind.as_str()).into())
}
