//! What a server asks of its callers: nothing, a token, TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::http::Means;

/// How a certificate is made.
const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
/// An authority.
const AUTHORITY: &str = "-subj /CN=ca -keyout ca.key -out ca.pem";
/// A certificate by it, for the loopback address.
const ISSUED: &str = "-subj /CN=load -CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE \
                      -addext subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.pem";

/// What a server asks of its callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posture {
    /// A token: it has an access file.
    pub token: bool,
    /// TLS.
    pub tls: bool,
}

impl Posture {
    /// Makes the files that such a server needs, in `scratch`. Gives its settings, and what its callers need.
    pub fn prepare(self, program: &Path, scratch: &Path) -> Result<(Vec<String>, Means)> {
        let (mut settings, mut means) = (Vec::new(), Means::default());
        let path = |name: &str| scratch.join(name);
        let setting = |key: &str, name: &str| format!("{key}={}", path(name).display());
        if self.token {
            let mut drawing = Command::new(program);
            drawing.args(["token", "new", "--file"]).arg(path("token"));
            let line = run(&mut drawing)?;
            let rights = r#"[{ verb = ["hold", "read"], prefix = "" }, { verb = "observe" }]"#;
            let named = "[[principal]]\nname = \"load\"\nowner = \"*\"";
            fs::write(path("access.toml"), format!("{named}\nmay = {rights}\n{line}"))?;
            fs::set_permissions(path("access.toml"), fs::Permissions::from_mode(0o600))?;
            settings.push(setting("auth.file", "access.toml"));
            means = means.showing(fs::read_to_string(path("token"))?.trim());
        }
        if self.tls {
            for files in [AUTHORITY, ISSUED] {
                let mut making = Command::new("openssl");
                making.args(NEW.split_whitespace()).args(files.split_whitespace());
                run(making.current_dir(scratch))?;
            }
            settings.push(setting("server.tls_cert", "tls.pem"));
            settings.push(setting("server.tls_key", "tls.key"));
            means = means.trusting(path("ca.pem"))?;
        }
        Ok((settings, means))
    }
}

/// What a program prints that succeeds.
fn run(command: &mut Command) -> Result<String> {
    let ran = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(ran.stdout)?)
}
