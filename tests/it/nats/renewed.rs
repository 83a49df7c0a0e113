//! Credentials and certificates that are renewed on disk while a store is open: the next connection uses them.

use std::{path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};
use tenure::{
    clock::{Clock as _, SystemClock},
    lease::Revision,
    store::{
        LeaseStore, WriteOutcome,
        nats::{NatsStore, Options, Tls},
    },
};

use crate::nats::harness::{eventually, fresh, grant, open_with, usual};
use crate::support::{
    nats_server::{Server, Sync},
    tls::Certificates,
};

/// A write to a key of its own, once the store can be written again.
async fn goes_on(store: &Arc<NatsStore>, name: &str) {
    eventually(&format!("{name} is written"), async || {
        let write = grant(name, Revision::ABSENT, "w", 1);
        let outcome = store.compare_and_set(write).await;
        // An earlier try may have written it without an answer.
        matches!(outcome, WriteOutcome::Committed(_) | WriteOutcome::Conflict(_))
    })
    .await;
}

fn replace(path: &Path, content: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, content).expect("a file");
    std::fs::rename(&next, path).expect("it is replaced");
}

/// A token of NATS, signed by one key for another.
fn token(by: &KeyPair, subject: &KeyPair, expires: Option<u64>, about: Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = json!({
        "jti": subject.public_key(), "iat": now(), "iss": by.public_key(), "name": "test",
        "sub": subject.public_key(), "nats": about,
    });
    if let Some(expires) = expires {
        claims["exp"] = json!(expires);
    }
    let said =
        format!("{}.{}", part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(&claims));
    let signature = by.sign(said.as_bytes()).expect("a seed signs");
    format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn now() -> u64 {
    SystemClock::new().wall_ms() / 1000
}

/// A file of credentials for a new user of the account, who is known until then.
fn credentials(account: &KeyPair, expires: u64) -> String {
    let user = KeyPair::new_user();
    let about = json!({
        "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2,
    });
    format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        token(account, &user, Some(expires), about),
        user.seed().expect("it has a seed")
    )
}

#[tokio::test]
async fn a_user_whose_jwt_is_renewed_on_disk_is_still_known_when_the_former_one_has_expired() {
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let of_operator =
        token(&operator, &operator, None, json!({ "type": "operator", "version": 2 }));
    let limits = json!({
        "subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1,
        "wildcards": true, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    // The account of the system keeps no streams.
    let mut of_system = limits.clone();
    for kind in ["mem_storage", "disk_storage", "streams", "consumer"] {
        of_system[kind] = json!(0);
    }
    let system = KeyPair::new_account();
    let entry = |one: &KeyPair, limits: Value| {
        let about = json!({ "limits": limits, "type": "account", "version": 2 });
        format!("{}: \"{}\"\n", one.public_key(), token(&operator, one, None, about))
    };
    let accounts = entry(&account, limits) + &entry(&system, of_system);
    let config = format!(
        "operator: \"{of_operator}\"\nresolver: MEMORY\nsystem_account: {}\nresolver_preload: {{ {accounts} }}",
        system.public_key()
    );
    let mut server = Server::start_with(Sync::Default, &config);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("user.creds");
    let expires = now() + 4;
    replace(&file, &credentials(&account, expires));
    let options = Options { credentials: Some(file.clone()), ..usual(&server.url()) };
    let store = open_with(options, fresh(3), None).await.expect("it is let in");
    goes_on(&store, "before").await;
    replace(&file, &credentials(&account, now() + 3600));
    while now() <= expires {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    goes_on(&store, "after").await;
    // A file that is half written is not used.
    std::fs::write(&file, "-----BEGIN NATS USER JWT-----\n").expect("a file");
    server.kill();
    server.run();
    goes_on(&store, "half").await;
}

#[tokio::test]
async fn a_password_and_a_token_that_are_renewed_on_disk_are_used() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("secret");
    for (user, config) in [
        (Some("u"), "authorization { users = [ { user: u, password: SECRET } ] }"),
        (None, "authorization { token: SECRET }"),
    ] {
        let mut server = Server::start();
        server.kill();
        replace(&file, "first\n");
        server.run_with(&config.replace("SECRET", "first"));
        let options = Options {
            user: user.map(str::to_owned),
            password_file: user.map(|_| file.clone()),
            token_file: user.is_none().then(|| file.clone()),
            ..usual(&server.url())
        };
        let store = open_with(options, fresh(3), None).await.expect("it is let in");
        goes_on(&store, "before").await;
        server.kill();
        replace(&file, "second\n");
        server.run_with(&config.replace("SECRET", "second"));
        goes_on(&store, "after").await;
    }
}

#[tokio::test]
async fn certificates_that_are_renewed_on_disk_are_used_and_half_a_pair_is_waited_out() {
    let (first, second) = (Certificates::make(), Certificates::make());
    let dir = tempfile::tempdir().expect("a directory");
    let own = |name: &str| dir.path().join(name);
    let take = |from: &Certificates, name: &str| {
        let content = std::fs::read_to_string(from.path(name)).expect("a file");
        replace(&own(name), &content);
    };
    for name in ["ca.pem", "client.pem", "client.key"] {
        take(&first, name);
    }
    let config = |of: &Certificates| {
        format!(
            "tls {{\n cert_file: {:?}\n key_file: {:?}\n ca_file: {:?}\n verify: true\n}}",
            of.path("server.pem"),
            of.path("server.key"),
            of.path("ca.pem"),
        )
    };
    let mut server = Server::start();
    server.kill();
    server.run_with(&config(&first));
    let tls = Tls {
        ca: Some(own("ca.pem")),
        cert: Some(own("client.pem")),
        key: Some(own("client.key")),
        required: true,
        accept_plaintext: false,
    };
    let store = open_with(Options { tls, ..usual(&server.url()) }, fresh(3), None);
    let store = store.await.expect("it is let in");
    goes_on(&store, "before").await;
    server.kill();
    server.run_with(&config(&second));
    take(&second, "ca.pem");
    take(&second, "client.pem");
    // The key of the new certificate comes later.
    tokio::time::sleep(Duration::from_millis(700)).await;
    take(&second, "client.key");
    goes_on(&store, "after").await;
}
