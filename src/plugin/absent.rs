//! Replaces a kind of plugin that this build lacks.

use std::sync::Arc;

use super::{build_error::BuildError, contract::FencePlugin};
use crate::{
    clock::Clock,
    settings::{Nats, NotBuilt, Plugin},
};

pub(super) fn build(
    plugin: &Plugin,
    _store: &Nats,
    _clock: Arc<dyn Clock>,
) -> Result<Arc<dyn FencePlugin>, BuildError> {
    Err(NotBuilt(plugin.kind.as_str()).into())
}
