//! Arguments that several commands share, and the parsers of their values.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

use crate::{
    clock::{Entropy as _, SystemEntropy},
    lease::{check_label_name, check_label_value},
    settings::{Faults, Loaded, Sources, parse_duration},
};

/// How long `--wait forever` waits.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The sources of settings, in addition to the defaults and the environment.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingsArgs {
    /// TOML file with settings; config/tenure.toml documents every key
    #[arg(long, value_name = "FILE", env = "TENURE_CONFIG")]
    pub config: Option<PathBuf>,
    /// IP address or host name, and port to listen on (server.listen)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Directory of the embedded store (store.embedded.data_dir)
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Kind of store: embedded, nats or dynamodb (store.kind)
    #[arg(long, value_name = "KIND")]
    pub store: Option<String>,
    /// Any other setting, as section.key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl SettingsArgs {
    /// Reads all layers, and checks that this build supports what they select.
    ///
    /// # Errors
    /// All faults in all layers, or everything that this build lacks.
    pub fn load(&self) -> Result<Loaded, Faults> {
        let listen = self.listen.as_deref().map(address);
        let sources = Sources::new()
            .file(self.config.as_deref())
            .flag("--listen", "server.listen", listen.as_deref())
            .flag("--data-dir", "store.embedded.data_dir", self.data_dir.as_deref())
            .flag("--store", "store.kind", self.store.as_deref());
        let sources = self.set.iter().fold(sources, |sources, given| sources.set(given));
        let loaded = sources.load()?;
        loaded.check_build()?;
        Ok(loaded)
    }
}

/// The address that a host name with a port stands for, as IPv4 if it has one. Anything else stays as it is, for the
/// settings to judge.
fn address(text: &str) -> String {
    let is_address = text.parse::<SocketAddr>().is_ok();
    let found: Vec<SocketAddr> = match text.to_socket_addrs() {
        Ok(found) if !is_address => found.collect(),
        _ => Vec::new(),
    };
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.map_or_else(|| text.to_owned(), SocketAddr::to_string)
}

/// Parses `250ms`, `15s`, `2m`. The server counts in milliseconds, so only whole milliseconds are accepted.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)
        .map_err(|error| format!("{error}; write a duration such as 250ms, 15s or 2m"))?;
    if !span.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("must be a whole number of milliseconds".into());
    }
    Ok(span)
}

/// Parses how long to wait for a lease: a duration, or `forever`.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    if text == "forever" { Ok(FOREVER) } else { duration(text) }
}

/// One name of a list with commas between the names, without the blanks around it.
pub(super) fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("has an empty name between its commas".into()),
        name => Ok(name.to_owned()),
    }
}

/// The names in a text, one on each line. Empty lines, blanks around a name, a byte order mark, and comments, which begin
/// with `#`, do not count.
pub(super) fn names(text: &str) -> Vec<String> {
    let lines = unmarked(text).lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The text without the byte order mark that some editors put before it.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a secret: `-` is the first line of standard input, `@FILE` is the first line of a file. Every user of the
/// machine can see command-line arguments.
pub(super) fn secret(text: &str) -> Result<String, String> {
    let read = match (text, text.strip_prefix('@')) {
        ("-", _) => io::read_to_string(io::stdin()),
        (_, Some(path)) => std::fs::read_to_string(path),
        _ => return Ok(text.to_owned()),
    };
    let read = read.map_err(|error| format!("cannot be read: {error}"))?;
    match unmarked(&read).lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err("it is empty: the first line must hold the secret".into()),
    }
}

/// Whole milliseconds, for a request body.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `<host>:<pid>#<random>`: the default owner of a lease that lasts as long as this process runs. In containers, processes
/// often share both the name of the host and the number of the process.
pub(super) fn default_owner() -> String {
    format!("{}:{}#{}", host(), std::process::id(), six_digits())
}

fn six_digits() -> String {
    format!("{:06x}", SystemEntropy::new().nonce().0 & 0xff_ffff)
}

/// The name of the user, or of the machine if the user has none.
pub(super) fn user() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(host)
}

/// `<user>@<host>#<random>`: the default owner of a lease that outlives this process. Two calls give two owners, so
/// that one waits for the other.
pub(super) fn person() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let place = user.map_or_else(host, |user| format!("{user}@{}", host()));
    format!("{place}#{}", six_digits())
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Reads a label of a member, as NAME=VALUE.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    check_label_name(name).and_then(|()| check_label_value(value))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_whole_milliseconds() {
        assert_eq!(duration("1m 30s").map(millis), Ok(90_000));
        assert!(duration("15").unwrap_err().contains("250ms"));
        assert!(duration("1500us").unwrap_err().contains("milliseconds"));
        assert!(duration("").is_err());
    }

    #[test]
    fn a_host_name_is_listened_on_at_its_address() {
        assert_eq!(address("localhost:7373"), "127.0.0.1:7373");
        for text in ["127.0.0.1:0", "[::1]:7373", "7373", "127.0.0.1"] {
            assert_eq!(address(text), text);
        }
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let named = format!("@{}", file.path().display());
        assert!(secret(&named).unwrap_err().contains("empty"));
        std::fs::write(file.path(), "00ff \nmore\n").unwrap();
        assert_eq!((secret(&named), secret("00ff")), (Ok("00ff".into()), Ok("00ff".into())));
        assert!(secret("@/no/such/file").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn the_owner_names_host_and_process() {
        let owner = default_owner();
        assert!(owner.contains(&format!(":{}#", std::process::id())), "{owner}");
        assert_ne!(owner, default_owner(), "two containers would be one owner");
        assert!(crate::lease::Owner::new(&owner).is_ok());
        let person = person();
        assert!(person.contains(&host()) && crate::lease::Owner::new(&person).is_ok(), "{person}");
        assert_ne!(person, super::person(), "two calls would be one owner");
    }
}
