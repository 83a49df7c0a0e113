//! How a command reaches its servers: by arguments, by the environment, or by a context of the user.
//!
//! Guarantees: what belongs to a context is used with the servers of that context alone. A token that is named there is
//! sent to no server that `--server` or `TENURE_SERVER` names.

mod contexts;

use std::path::PathBuf;

use clap::{ArgMatches, Args, parser::ValueSource};

pub(super) use self::contexts::{Contexts, Entry};
use super::exit::Failure;
use crate::client::{Client, ClientBuilder};

/// The server where nothing names another one.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7373";

/// How the server is reached.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServerArgs {
    /// Cluster to call, by its name in the user's file of contexts; see `tenure context`. On the command line, it wins
    /// over the environment variables of the options below [default: the one that `tenure context use` chose]
    #[arg(long, global = true, env = "TENURE_CONTEXT", value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Server URL, host:port, or unix:/path; several servers of one store, separated by commas, are tried in turn. A
    /// context is then left out [default: that of the context, or http://127.0.0.1:7373]
    #[arg(long, global = true, env = "TENURE_SERVER", value_name = "URL")]
    pub(super) server: Option<String>,
    /// PEM file with the CA certificates to trust for https servers, instead of the system's
    #[arg(long, global = true, env = "TENURE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the certificate that proves to https servers who calls
    #[arg(long, global = true, env = "TENURE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of that certificate
    #[arg(long, global = true, env = "TENURE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// HTTP proxy for calls to the server; HTTP_PROXY and similar variables are ignored
    #[arg(long, global = true, env = "TENURE_PROXY", hide_env_values = true, value_name = "URL")]
    proxy: Option<String>,
    /// File whose first line is the token that proves to the server who calls; it is read again when the server does
    /// not know the token
    #[arg(long, global = true, env = "TENURE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send the token in plain text to servers on other machines too, where whoever is on the network can read it
    #[arg(
        long,
        global = true,
        env = "TENURE_PLAINTEXT_TOKEN",
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    plaintext_token: bool,
}

/// Where the servers are, and where that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// The name of the context, if one is in use.
    pub(super) context: Option<String>,
    pub(super) entry: Entry,
}

impl ServerArgs {
    /// Leaves out what the environment says, if `--context` on the command line names the servers: a token for the
    /// servers of the environment is not for those of the context.
    ///
    /// # Errors
    /// If both `--context` and `--server` are on the command line.
    pub(super) fn settled(self, matches: &ArgMatches) -> Result<Self, Failure> {
        let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        if !typed("context") {
            return Ok(self);
        }
        if typed("server") {
            let problem = "--context and --server both name the servers: give one of them";
            return Err(Failure::Usage(problem.to_owned()));
        }
        Ok(Self {
            context: self.context,
            server: None,
            ca: self.ca.filter(|_| typed("ca")),
            tls_cert: self.tls_cert.filter(|_| typed("tls_cert")),
            tls_key: self.tls_key.filter(|_| typed("tls_key")),
            proxy: self.proxy.filter(|_| typed("proxy")),
            token_file: self.token_file.filter(|_| typed("token_file")),
            plaintext_token: self.plaintext_token && typed("plaintext_token"),
        })
    }

    /// Where the servers are.
    ///
    /// # Errors
    /// If there is no such context, or the file of contexts cannot be used.
    pub(super) fn reached(&self) -> Result<Reached, Failure> {
        self.reached_by(Contexts::of_user().as_ref())
    }

    fn reached_by(&self, contexts: Option<&Contexts>) -> Result<Reached, Failure> {
        let (context, mut entry) = match text(self.server.as_ref()) {
            Some(server) => (None, Entry { server, ..Entry::default() }),
            None => self.of_context(contexts)?,
        };
        let (cert, key) = (file(self.tls_cert.as_ref()), file(self.tls_key.as_ref()));
        if cert.is_some() || key.is_some() {
            (entry.tls_cert, entry.tls_key) = (cert, key);
        }
        entry.ca = file(self.ca.as_ref()).or(entry.ca);
        entry.token_file = file(self.token_file.as_ref()).or(entry.token_file);
        entry.plaintext_token |= self.plaintext_token;
        Ok(Reached { context, entry })
    }

    fn of_context(&self, contexts: Option<&Contexts>) -> Result<(Option<String>, Entry), Failure> {
        let name = match (text(self.context.as_ref()), contexts) {
            (Some(name), _) => Some(name),
            (None, Some(contexts)) => contexts.current()?,
            (None, None) => None,
        };
        let Some(name) = name else {
            let server = DEFAULT_SERVER.to_owned();
            return Ok((None, Entry { server, ..Entry::default() }));
        };
        let homeless = || Failure::Usage("contexts need HOME or XDG_CONFIG_HOME".to_owned());
        let entry = contexts.ok_or_else(homeless)?.named(&name)?;
        Ok((Some(name), entry))
    }

    /// A client of these servers.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let Entry { server, ca, token_file, tls_cert, tls_key, plaintext_token } =
            self.reached()?.entry;
        let client = Client::builder(&server).plaintext_token(plaintext_token);
        let client = ca.into_iter().fold(client, ClientBuilder::ca);
        let client = token_file.into_iter().fold(client, ClientBuilder::token_file);
        let client = match (tls_cert, tls_key) {
            (Some(cert), Some(key)) => client.client_certificate(cert, key),
            (None, None) => client,
            _ => {
                let problem = "--tls-cert and --tls-key are a pair: give both, or neither";
                return Err(Failure::Usage(problem.to_owned()));
            }
        };
        let proxy = self.proxy.as_deref().filter(|url| !url.is_empty());
        Ok(proxy.into_iter().fold(client, ClientBuilder::proxy).build()?)
    }
}

/// A text that is there. An empty variable counts as unset.
fn text(given: Option<&String>) -> Option<String> {
    given.filter(|text| !text.is_empty()).cloned()
}

fn file(given: Option<&PathBuf>) -> Option<PathBuf> {
    given.filter(|path| !path.as_os_str().is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(dir: &std::path::Path) -> Contexts {
        let contexts = Contexts::at(dir);
        let prod = Entry {
            server: "https://prod".into(),
            token_file: Some("/prod/token".into()),
            tls_cert: Some("/prod/cert".into()),
            tls_key: Some("/prod/key".into()),
            ..Entry::default()
        };
        contexts.add("prod", &prod).unwrap();
        contexts.add("test", &Entry { server: "test:1".into(), ..Entry::default() }).unwrap();
        contexts
    }

    #[test]
    fn a_context_is_used_as_a_whole_and_only_with_its_own_servers() {
        let dir = tempfile::tempdir().unwrap();
        let contexts = contexts(dir.path());
        let reached = |args: &ServerArgs| args.reached_by(Some(&contexts)).unwrap();
        let none = ServerArgs::default();
        assert_eq!(reached(&none).entry.server, DEFAULT_SERVER);
        contexts.choose(Some("prod")).unwrap();
        let prod = reached(&none);
        assert_eq!((prod.context.as_deref(), &*prod.entry.server), (Some("prod"), "https://prod"));
        assert_eq!(prod.entry.token_file, Some("/prod/token".into()));
        let other = ServerArgs { server: Some("http://127.0.0.1:1".into()), ..none.clone() };
        let expected = Entry { server: "http://127.0.0.1:1".into(), ..Entry::default() };
        assert_eq!(reached(&other), Reached { context: None, entry: expected });
        let test = ServerArgs { context: Some("test".into()), ..none.clone() };
        assert_eq!(
            (&*reached(&test).entry.server, reached(&test).entry.token_file),
            ("test:1", None)
        );
        let mine = ServerArgs {
            token_file: Some("/mine".into()),
            tls_cert: Some("/my/cert".into()),
            ..none.clone()
        };
        let mine = reached(&mine).entry;
        assert_eq!((mine.token_file, mine.tls_key), (Some("/mine".into()), None), "no mixed pair");
        let unset = ServerArgs { server: Some(String::new()), ca: Some(PathBuf::new()), ..none };
        assert_eq!(reached(&unset), prod);
    }

    #[test]
    fn a_name_without_a_context_is_an_error_and_no_home_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let contexts = contexts(dir.path());
        let args = ServerArgs { context: Some("x".into()), ..ServerArgs::default() };
        assert!(args.reached_by(Some(&contexts)).unwrap_err().to_string().contains("prod, test"));
        assert!(args.reached_by(None).unwrap_err().to_string().contains("HOME"));
        let none = ServerArgs::default().reached_by(None).unwrap();
        assert_eq!(none.entry.server, DEFAULT_SERVER);
    }
}
