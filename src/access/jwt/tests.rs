use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    JwtFault,
    signer::{Signer, jwks},
};
use crate::access::{Access, JwtProof, Unlimited};

pub(super) const NOW_S: u64 = 1_800_000_000;
pub(super) const NOW_MS: u64 = NOW_S * 1000;
pub(super) const ISSUER: &str = "https://k8s.example";
pub(super) const SUB: &str = "system:serviceaccount:prod:shards";

/// A service account, all others of its namespace, and somebody of another issuer.
pub(super) const FILE: &str = r#"
[[jwt]]
issuer = "https://k8s.example"
keys = "jwks.json"
audience = "tenure"
[[jwt]]
issuer = "https://ci.example"
keys = "ci.json"
audience = "tenure"
max_age = "10m"
[[principal]]
name = "shards"
jwt = { issuer = "https://k8s.example", sub = "system:serviceaccount:prod:shards" }
may = [{ verb = "observe" }]
[[principal]]
name = "prod"
jwt = [{ issuer = "https://k8s.example", sub = "system:serviceaccount:prod:*" }]
may = [{ verb = "observe" }]
[[principal]]
name = "ci"
jwt = [{ issuer = "https://ci.example", sub = "*" }]
may = [{ verb = "observe" }]
"#;

/// A directory with the files of keys.
pub(super) struct Dir(TempDir);

impl Dir {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One in which the issuers have these keys.
    pub(super) fn with(k8s: &[Value], ci: &[Value]) -> Self {
        let dir = Self::new();
        dir.write("jwks.json", &jwks(k8s), 0o600);
        dir.write("ci.json", &jwks(ci), 0o600);
        dir
    }

    pub(super) fn write(&self, name: &str, content: &str, mode: u32) {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("access.toml")
    }

    pub(super) fn access(&self, content: &str) -> Access {
        Access::parse(&self.path(), content, 0).unwrap()
    }

    /// The faults, each without the name of the directory.
    pub(super) fn faults(&self, content: &str) -> Vec<String> {
        let faults = Access::parse(&self.path(), content, 0).expect_err(content);
        let dir = format!("{}/", self.0.path().display());
        faults.0.iter().map(|fault| fault.to_string().replace(&dir, "")).collect()
    }
}

/// What a service account's JWT claims.
pub(super) fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": SUB, "aud": ["tenure", "other"],
        "exp": NOW_S + 3600, "iat": NOW_S, "nbf": NOW_S,
        "kubernetes.io": { "namespace": "prod" },
    })
}

/// The same, with another value of one claim.
pub(super) fn with(claim: &str, value: Value) -> Value {
    let mut all = claims();
    all[claim] = value;
    all
}

/// The same, without one claim.
pub(super) fn without(claim: &str) -> Value {
    let mut all = claims();
    all.as_object_mut().unwrap().remove(claim);
    all
}

/// The name of the principal that shows this at a time.
pub(super) fn who_at(access: &Access, shown: &str, now_ms: u64) -> Result<String, JwtFault> {
    let found = access.by_bearer(shown, now_ms, &Unlimited)?;
    Ok(found.map_or("nobody".to_owned(), |found| found.principal.name.to_string()))
}

pub(super) fn who(access: &Access, shown: &str) -> Result<String, JwtFault> {
    who_at(access, shown, NOW_MS)
}

/// A JWT that must be valid now, and what was verified of it.
fn proof(access: &Access, jwt: &str) -> JwtProof {
    access.by_bearer(jwt, NOW_MS, &Unlimited).unwrap().unwrap().jwt.unwrap()
}

#[test]
fn a_jwt_by_each_kind_of_key_shows_who_calls() {
    let signers = [Signer::rsa(), Signer::p256(), Signer::ed25519()];
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk(signer.alg())).collect();
    let access = Dir::with(&keys, &keys).access(FILE);
    for signer in &signers {
        let name = |claims: &Value| who(&access, &signer.jwt(signer.alg(), claims));
        assert_eq!(name(&claims()), Ok("shards".to_owned()), "{}", signer.alg());
        let other = with("sub", json!("system:serviceaccount:prod:web"));
        assert_eq!(name(&other), Ok("prod".to_owned()));
        assert_eq!(name(&with("aud", json!("tenure"))), Ok("shards".to_owned()));
        // A time may have a fraction, and what is optional may be missing.
        assert_eq!(name(&with("exp", json!(NOW_S as f64 + 0.5))), Ok("shards".to_owned()));
        for claim in ["iat", "nbf", "kubernetes.io"] {
            assert_eq!(name(&without(claim)), Ok("shards".to_owned()), "{claim}");
        }
    }
}

#[test]
fn who_it_is_for_and_from_when_to_when_decide() {
    let signer = Signer::ed25519();
    let access = Dir::with(&[signer.jwk("k")], &[signer.jwk("k")]).access(FILE);
    let fault = |claims: &Value| who(&access, &signer.jwt("k", claims)).unwrap_err();
    for aud in [json!("other"), json!([]), json!(["tenure2", "tenur"]), json!("TENURE")] {
        assert_eq!(fault(&with("aud", aud.clone())), JwtFault::Audience, "{aud}");
    }
    for iss in [json!("https://other.example"), json!("https://k8s.example/"), json!("")] {
        assert_eq!(fault(&with("iss", iss.clone())), JwtFault::UnknownIssuer, "{iss}");
    }
    for sub in ["system:serviceaccount:dev:shards", ""] {
        let expected = JwtFault::UnknownSubject { issuer: ISSUER.into(), sub: sub.into() };
        assert_eq!(fault(&with("sub", json!(sub))), expected);
    }
    assert_eq!(fault(&with("exp", json!(NOW_S - 30))), JwtFault::Expired);
    assert_eq!(fault(&with("exp", json!(0))), JwtFault::Expired);
    assert_eq!(fault(&with("nbf", json!(NOW_S + 31))), JwtFault::NotYet);
    assert_eq!(fault(&with("iat", json!(NOW_S + 31))), JwtFault::NotYet);
    assert_eq!(fault(&with("exp", json!(NOW_S + 24 * 3600 + 1))), JwtFault::TooLongValid);
    let mut long = without("iat");
    long["exp"] = json!(NOW_S + 24 * 3600 + 1);
    assert_eq!(fault(&long), JwtFault::TooLongValid);
    let ci = |exp: u64| json!({ "iss": "https://ci.example", "sub": "x", "aud": "tenure", "iat": NOW_S, "exp": exp });
    assert_eq!(fault(&ci(NOW_S + 601)), JwtFault::TooLongValid);
    assert_eq!(who(&access, &signer.jwt("k", &ci(NOW_S + 600))), Ok("ci".to_owned()));
}

#[test]
fn clocks_may_differ_by_thirty_seconds() {
    let signer = Signer::ed25519();
    let dir = Dir::with(&[signer.jwk("k")], &[signer.jwk("k")]);
    let jwt = signer.jwt("k", &claims());
    let at = |now_ms: u64| who_at(&dir.access(FILE), &jwt, now_ms);
    assert_eq!(at(NOW_MS - 30_000), Ok("shards".to_owned()));
    assert_eq!(at(NOW_MS - 30_001), Err(JwtFault::NotYet));
    let end_ms = NOW_MS + 3600 * 1000 + 30_000;
    assert_eq!(at(end_ms - 1), Ok("shards".to_owned()));
    assert_eq!(at(end_ms), Err(JwtFault::Expired));
    assert_eq!(proof(&dir.access(FILE), &jwt).until_ms(), end_ms);
}

#[test]
fn a_claim_that_is_missing_or_of_a_wrong_type_is_a_fault() {
    let signer = Signer::ed25519();
    let access = Dir::with(&[signer.jwk("k")], &[signer.jwk("k")]).access(FILE);
    let refuse = |claims: &Value| {
        let found = who(&access, &signer.jwt("k", claims));
        assert!(matches!(found, Err(JwtFault::Claims(_))), "{found:?}: {claims}");
    };
    ["iss", "sub", "aud", "exp"].iter().for_each(|claim| refuse(&without(claim)));
    for claim in ["exp", "nbf", "iat"] {
        let text = json!(NOW_S.to_string());
        for odd in
            [text, json!(null), json!(true), json!([NOW_S]), json!({}), json!(-1), json!(1e300)]
        {
            refuse(&with(claim, odd));
        }
    }
    for claim in ["iss", "sub"] {
        for odd in [json!(null), json!(7), json!([ISSUER]), json!({})] {
            refuse(&with(claim, odd));
        }
    }
    for odd in [json!(null), json!(7), json!(["tenure", 7]), json!({ "tenure": true })] {
        refuse(&with("aud", odd));
    }
    refuse(&json!([claims()]));
    refuse(&json!("claims"));
}

#[test]
fn a_jwt_that_was_verified_is_known_until_it_ends() {
    let signer = Signer::p256();
    let access = Dir::with(&[signer.jwk("k")], &[signer.jwk("k")]).access(FILE);
    let jwt = signer.jwt("k", &claims());
    let end_ms = NOW_MS + 3600 * 1000 + 30_000;
    assert_eq!(access.issuers().verified(), 0);
    for now_ms in [NOW_MS, NOW_MS, end_ms - 1] {
        assert_eq!(who_at(&access, &jwt, now_ms), Ok("shards".to_owned()));
        assert_eq!(access.issuers().verified(), 1);
    }
    assert_eq!(who_at(&access, &jwt, end_ms), Err(JwtFault::Expired));
    // The wall clock may go back, too.
    assert_eq!(who_at(&access, &jwt, NOW_MS - 30_001), Err(JwtFault::NotYet));
    assert_eq!(who(&access, &jwt), Ok("shards".to_owned()));
    // What is refused is verified anew each time.
    let other = signer.jwt("k", &with("aud", json!("other")));
    assert_eq!(who(&access, &other), Err(JwtFault::Audience));
    assert_eq!(access.issuers().verified(), 1);
    assert!(!format!("{access:?}").contains(&jwt));
}

#[test]
fn what_was_verified_counts_no_longer_once_the_files_say_otherwise() {
    let (old, new) = (Signer::ed25519(), Signer::ed25519());
    let dir = Dir::with(&[old.jwk("old")], &[old.jwk("old")]);
    let jwt = old.jwt("old", &claims());
    let access = dir.access(FILE);
    let proof = proof(&access, &jwt);
    let same = |access: &Access| access.by_proof(&proof).map(|one| one.name.to_string());
    assert_eq!(same(&access).as_deref(), Some("shards"));

    // Another key beside the old one changes nothing.
    dir.write("jwks.json", &jwks(&[new.jwk("new"), old.jwk("old")]), 0o600);
    let both = dir.access(FILE);
    assert_eq!(
        (same(&both).as_deref(), who(&both, &jwt)),
        (Some("shards"), Ok("shards".to_owned()))
    );
    // The principal is gone, and another one has its subject.
    let gone = dir.access(&FILE.replace(":prod:shards", ":prod:other"));
    assert_eq!((same(&gone).as_deref(), who(&gone, &jwt)), (Some("prod"), Ok("prod".to_owned())));
    let nobody = dir.access(&FILE.replace(":prod:", ":dev:"));
    assert!(same(&nobody).is_none() && who(&nobody, &jwt).is_err());
    // The issuer's JWTs must be for another audience, or end sooner.
    for (is, was) in
        [("\"elsewhere\"", "\"tenure\""), ("\"tenure\"\nmax_age = \"1m\"", "\"tenure\"")]
    {
        let stricter = dir.access(&FILE.replacen(was, is, 1));
        assert!(same(&stricter).is_none() && who(&stricter, &jwt).is_err(), "{is}");
    }
    // The key is gone, also if another one has its name.
    for keys in [vec![new.jwk("new")], vec![new.jwk("old")]] {
        dir.write("jwks.json", &jwks(&keys), 0o600);
        let replaced = dir.access(FILE);
        assert!(same(&replaced).is_none() && who(&replaced, &jwt).is_err());
        let kid = keys[0]["kid"].as_str().unwrap();
        assert_eq!(who(&replaced, &new.jwt(kid, &claims())), Ok("shards".to_owned()));
    }
}

#[test]
fn a_principal_with_subjects_is_printed_as_it_is_read() {
    let signer = Signer::ed25519();
    let dir = Dir::with(&[signer.jwk("k")], &[signer.jwk("k")]);
    let access = dir.access(FILE);
    let (issuers, _) = FILE.split_once("[[principal]]").unwrap();
    let printed: String = access.principals().iter().map(|one| format!("{one}\n")).collect();
    let again = dir.access(&format!("{issuers}{printed}"));
    assert_eq!(again.principals(), access.principals(), "{printed}");
    assert!(printed.contains(&format!("sub = \"{SUB}\"")), "{printed}");
}
