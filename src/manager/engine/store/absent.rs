//! Replaces a kind of store that this build lacks.

use super::kind::{Opened, Opening, Surroundings};
use crate::{
    lease::Nonce,
    settings::{NotBuilt, Settings},
    store::{Finding, Witness},
};

pub(super) async fn open(
    settings: &Settings,
    _surroundings: &Surroundings,
    _opening: Opening,
) -> anyhow::Result<Opened> {
    Err(NotBuilt(settings.store.kind.as_str()).into())
}

pub(super) async fn verify(
    settings: &Settings,
    _nobody: Nonce,
    _witness: Option<Witness>,
) -> Vec<Finding> {
    vec![Finding::failed("store", NotBuilt(settings.store.kind.as_str()))]
}
