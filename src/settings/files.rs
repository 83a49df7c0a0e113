//! Checks the files that the settings name: whether they exist, and have the expected content.
//!
//! This is not part of loading: settings can also be shown on a machine that lacks their files.

use super::{fault::Faults, load::Loaded, tree::TABLE};

impl Loaded {
    /// Checks every file that this coordinator would read, including files that it only reads on demand, but not the
    /// files of a store that is not in use.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn check_files(&self) -> Result<(), Faults> {
        let in_use = TABLE.iter().filter(|setting| self.settings.store.uses(&setting.section));
        let faults = in_use.flat_map(|setting| {
            let problems = (setting.file_faults)(&self.settings).into_iter();
            problems.map(|problem| self.fault(&setting.path, problem))
        });
        let of_plugins = self.settings.plugins.iter().enumerate().filter_map(|(at, plugin)| {
            let problem = plugin.kind.file_fault()?;
            Some(self.fault(&format!("plugin[{at}].url_file"), problem))
        });
        Faults(faults.chain(of_plugins).collect()).or(())
    }
}
