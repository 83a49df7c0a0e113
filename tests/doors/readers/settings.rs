//! The reader of a settings file, for fuzz targets and tests. Not in a released binary.

use std::path::Path;

use super::{Faults, Loaded, layers::Layers, toml_file::read_text};

/// Reads the content of a file alone.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(content: &str) -> Result<Loaded, Faults> {
    let mut layers = Layers::default();
    read_text(Path::new("fuzzed.toml"), content, &mut layers);
    layers.load()
}
