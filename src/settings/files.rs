//! Checks the files that the settings name: whether they exist, and have the expected content.
//!
//! This is not part of loading: settings can also be shown on a machine that lacks their files.

use super::{
    fault::{Fault, Faults},
    load::Loaded,
    tree::TABLE,
};
use crate::tls;

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
        let mut faults: Vec<Fault> = faults.chain(of_plugins).collect();
        if !faults.iter().any(|fault| fault.key.as_deref().is_some_and(is_of_tls)) {
            faults.extend(self.tls_fault());
        }
        Faults(faults).or(())
    }

    /// The fault of the TLS files that only reading them together shows.
    fn tls_fault(&self) -> Option<Fault> {
        let found = tls::check(&self.settings.server.tls_files()?).err()?;
        let problem = format!("names {}, which {}", found.path.display(), found.why);
        Some(self.fault(found.setting, problem))
    }
}

fn is_of_tls(key: &str) -> bool {
    key.starts_with("server.tls_")
}
