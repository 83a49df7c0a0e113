//! What a connection proves to NATS: a JWT and the seed that signs for it, a password, or a token.
//!
//! Guarantees: each new connection uses the files as they are then. Where a file cannot be read, or is half written, its former
//! content stays in use. A file system that does not answer costs one thread, and no connection.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_nats::{Auth, AuthError};
use nkeys::KeyPair;
use tokio::{sync::Mutex, time::timeout};

use super::{error::NatsOpenError, options::Options};
use crate::{files::apart, settings::first_line};

/// How long a new connection waits for the files.
const READ: Duration = Duration::from_millis(500);

pub(super) struct Credentials {
    sources: Sources,
    latest: RwLock<Arc<Content>>,
    /// Held while the files are read.
    turn: Arc<Mutex<()>>,
}

/// Where the content comes from.
#[derive(Clone)]
struct Sources {
    user: Option<String>,
    credentials: Option<PathBuf>,
    password: (Option<String>, Option<PathBuf>),
    token: (Option<String>, Option<PathBuf>),
}

#[derive(Default)]
struct Content {
    identity: Option<Identity>,
    password: Option<String>,
    token: Option<String>,
}

/// A user by JWT.
struct Identity {
    jwt: String,
    key: KeyPair,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// [`NatsOpenError::File`].
    pub(super) async fn open(options: &Options) -> Result<Self, NatsOpenError> {
        let sources = Sources {
            user: options.user.clone(),
            credentials: options.credentials.clone(),
            password: (options.password.clone(), options.password_file.clone()),
            token: (options.token.clone(), options.token_file.clone()),
        };
        let content = match sources.clone().read_apart(None).await {
            Some(read) => read?,
            None => Content::default(),
        };
        Ok(Self { sources, latest: RwLock::new(Arc::new(content)), turn: Arc::default() })
    }

    /// What a new connection proves, in answer to the server's challenge.
    ///
    /// # Errors
    /// The seed signs nothing.
    pub(super) async fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        self.look().await;
        let content = self.latest.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut auth = Auth::new();
        auth.username.clone_from(&self.sources.user);
        auth.password.clone_from(&content.password);
        auth.token.clone_from(&content.token);
        if let Some(Identity { jwt, key }) = &content.identity {
            auth.jwt = Some(jwt.clone());
            auth.signature = Some(key.sign(nonce).map_err(AuthError::new)?);
        }
        Ok(auth)
    }

    /// Reads the files again, unless an earlier look still does.
    async fn look(&self) {
        if !self.sources.have_files() {
            return;
        }
        let Ok(turn) = self.turn.clone().try_lock_owned() else { return };
        let read = timeout(READ, self.sources.clone().read_apart(Some(turn))).await;
        match read {
            Ok(Some(Ok(content))) => {
                *self.latest.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(content);
            }
            Ok(Some(Err(fault))) => {
                tracing::warn!(%fault, "the former credentials for NATS stay in use");
            }
            Ok(None) | Err(_) => {
                tracing::warn!(
                    "the file system does not answer: the former credentials for NATS stay in use"
                );
            }
        }
    }
}

impl Sources {
    fn have_files(&self) -> bool {
        self.credentials.is_some() || self.password.1.is_some() || self.token.1.is_some()
    }

    /// Reads on a separate thread, and keeps the turn until that is done.
    async fn read_apart(
        self,
        turn: Option<tokio::sync::OwnedMutexGuard<()>>,
    ) -> Option<Result<Content, NatsOpenError>> {
        apart(move || {
            let read = self.read();
            drop(turn);
            read
        })
        .await
    }

    fn read(&self) -> Result<Content, NatsOpenError> {
        let line = |(given, file): &(Option<String>, Option<PathBuf>)| match file {
            Some(path) => first_line(path).map(Some).map_err(|why| fault(path, why)),
            None => Ok(given.clone()),
        };
        let identity = self.credentials.as_ref().map(|path| {
            let text = std::fs::read_to_string(path)
                .map_err(|error| fault(path, format!("cannot be read: {error}")))?;
            identity(&text).map_err(|why| fault(path, why))
        });
        Ok(Content {
            identity: identity.transpose()?,
            password: line(&self.password)?,
            token: line(&self.token)?,
        })
    }
}

fn fault(path: &std::path::Path, why: String) -> NatsOpenError {
    NatsOpenError::File { path: path.to_owned(), why }
}

/// Reads a file of credentials: one block with a JWT, and one with a seed. A block stands between two lines that begin with
/// dashes.
fn identity(text: &str) -> Result<Identity, String> {
    let mut blocks = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut block = |title: &str| {
        let begins = |line: &str| line.starts_with("---") && line.contains(title);
        blocks.find(|line| begins(line)).and(blocks.next()).map(str::to_owned)
    };
    let jwt = block("BEGIN NATS USER JWT").ok_or("has no user JWT")?;
    let seed = block("BEGIN USER NKEY SEED").ok_or("has no seed")?;
    let key = KeyPair::from_seed(&seed)
        .map_err(|error| format!("has a seed that is not valid: {error}"))?;
    Ok(Identity { jwt, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\r\neyJ0.e30.sig\r\n------END NATS USER JWT------\r\n\r\n\
             ************************* IMPORTANT *************************\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn a_file_of_credentials_has_a_jwt_and_a_seed() {
        let key = KeyPair::new_user();
        let text = file(&key.seed().unwrap());
        let read = identity(&text).unwrap();
        assert_eq!((read.jwt.as_str(), read.key.public_key()), ("eyJ0.e30.sig", key.public_key()));
        let half = &text[..text.len() / 3];
        assert_eq!(identity(half).err().as_deref(), Some("has no seed"));
        assert_eq!(identity("").err().as_deref(), Some("has no user JWT"));
        assert!(identity(&file("SU")).is_err_and(|why| why.contains("seed that is not valid")));
    }
}
