//! JWTs that somebody forged, or changed on their way.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use super::{
    JwtFault,
    signer::{Signer, compose},
    tests::{Dir, FILE, ISSUER, NOW_MS, NOW_S, claims, who, with},
};
use crate::access::{Access, Allowance};

/// An access file whose first issuer has this key.
fn of(key: Value) -> Access {
    let other = Signer::ed25519();
    Dir::with(&[key], &[other.jwk("k")]).access(FILE)
}

#[test]
fn a_jwt_without_a_signature_or_by_a_shared_secret_is_refused() {
    let signer = Signer::rsa();
    let jwk = signer.jwk("k");
    let access = of(jwk.clone());
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let jwt = compose(&json!({ "alg": alg, "kid": "k" }), &claims(), |_| Vec::new());
        assert_eq!(who(&access, &jwt), Err(JwtFault::Header), "{alg}");
    }
    // The signature is left out, and the algorithm is right.
    let jwt = compose(&json!({ "alg": "RS256", "kid": "k" }), &claims(), |_| Vec::new());
    assert_eq!(who(&access, &jwt), Err(JwtFault::Signature));
    // The public key serves as the secret of an HMAC, in each form in which a verifier may have it.
    let n = BASE64.decode(jwk["n"].as_str().unwrap()).unwrap();
    for secret in [n, jwk["n"].as_str().unwrap().into(), jwk.to_string().into_bytes()] {
        let sign = |message: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message).as_ref().to_vec()
        };
        for alg in ["HS256", "HS384", "HS512"] {
            let jwt = compose(&json!({ "alg": alg, "kid": "k" }), &claims(), sign);
            assert_eq!(who(&access, &jwt), Err(JwtFault::Header), "{alg}");
        }
        let jwt = compose(&json!({ "alg": "RS256", "kid": "k" }), &claims(), sign);
        assert_eq!(who(&access, &jwt), Err(JwtFault::Signature));
    }
}

#[test]
fn the_key_decides_about_the_algorithm() {
    let (rsa, ec, ed) = (Signer::rsa(), Signer::p256(), Signer::ed25519());
    let keys = [rsa.jwk("rsa"), ec.jwk("ec"), ed.jwk("ed")];
    let access = Dir::with(&keys, &keys).access(FILE);
    for (alg, kid, signer) in
        [("RS256", "ec", &ec), ("ES256", "rsa", &rsa), ("EdDSA", "ec", &ec), ("ES256", "ed", &ed)]
    {
        let header = json!({ "alg": alg, "kid": kid });
        let jwt = compose(&header, &claims(), |message| signer.sign(message));
        assert_eq!(who(&access, &jwt), Err(JwtFault::UnknownKey), "{alg} {kid}");
        // Without a name, none of several keys is tried: each would cost a verification.
        let jwt = compose(&json!({ "alg": alg }), &claims(), |message| signer.sign(message));
        assert_eq!(who(&access, &jwt), Err(JwtFault::NoKey), "{alg}");
    }
    for alg in ["RS384", "RS512", "PS256", "ES384", "ES512", "rs256", "Ed25519"] {
        let jwt = compose(&json!({ "alg": alg }), &claims(), |message| rsa.sign(message));
        assert_eq!(who(&access, &jwt), Err(JwtFault::Header), "{alg}");
    }
}

#[test]
fn the_name_of_a_key_chooses_it_among_those_of_the_issuer() {
    let (one, two, foreign) = (Signer::p256(), Signer::p256(), Signer::p256());
    let keys = [one.jwk("1"), two.jwk("2")];
    let access = Dir::with(&keys, &[foreign.jwk("1")]).access(FILE);
    assert_eq!(who(&access, &two.jwt("2", &claims())), Ok("shards".to_owned()));
    assert_eq!(who(&access, &two.jwt("1", &claims())), Err(JwtFault::Signature));
    assert_eq!(who(&access, &two.jwt("3", &claims())), Err(JwtFault::UnknownKey));
    let nameless = compose(&json!({ "alg": "ES256" }), &claims(), |message| two.sign(message));
    assert_eq!(who(&access, &nameless), Err(JwtFault::NoKey));
    let sole = Dir::with(&[two.jwk("2")], &[foreign.jwk("1")]).access(FILE);
    assert_eq!(who(&sole, &nameless), Ok("shards".to_owned()), "one key needs no name");
    // The key of another issuer that the file names, with the name of one of this issuer's.
    assert_eq!(who(&access, &foreign.jwt("1", &claims())), Err(JwtFault::Signature));
    let own = json!({ "iss": "https://ci.example", "sub": "x", "aud": "tenure", "iat": NOW_S, "exp": NOW_S + 60 });
    assert_eq!(who(&access, &foreign.jwt("1", &own)), Ok("ci".to_owned()));
    assert_eq!(who(&access, &one.jwt("1", &own)), Err(JwtFault::Signature));
}

/// This many wrong signatures may be verified.
struct Few(std::cell::Cell<u32>);

impl Allowance for Few {
    fn is_left(&self) -> bool {
        self.0.get() > 0
    }

    fn failed(&self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn a_wrong_signature_is_verified_once_and_only_while_something_is_left() {
    let (signer, forger) = (Signer::p256(), Signer::p256());
    let access = of(signer.jwk("k"));
    let few = Few(2.into());
    let who = |jwt: &str| access.by_bearer(jwt, NOW_MS, &few).map(|found| found.is_some());
    let forged = |n: u64| forger.jwt("k", &with("n", json!(n)));
    let known = signer.jwt("k", &claims());
    assert_eq!((who(&known), few.0.get()), (Ok(true), 2), "a right signature costs nothing");
    let first = forged(1);
    for _ in 0..3 {
        assert_eq!((who(&first), few.0.get()), (Err(JwtFault::Signature), 1));
    }
    // A fault that is found before the signature is verified costs nothing either.
    assert_eq!(who(&forger.jwt("unknown", &claims())), Err(JwtFault::UnknownKey));
    assert_eq!((who(&forged(2)), few.0.get()), (Err(JwtFault::Signature), 0));
    let third = forged(3);
    assert_eq!(who(&third), Err(JwtFault::Crowded));
    assert_eq!(who(&first), Err(JwtFault::Signature));
    assert_eq!(who(&known), Ok(true), "it was verified before");
    assert_eq!(who(&signer.jwt("k", &with("n", json!(4)))), Err(JwtFault::Crowded));
    few.0.set(1);
    assert_eq!(who(&third), Err(JwtFault::Signature), "it was not kept as wrong");
}

#[test]
fn a_signature_in_der_is_none() {
    let (fixed, der) = (&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_ASN1_SIGNING);
    let random = SystemRandom::new();
    let drawn = EcdsaKeyPair::generate_pkcs8(fixed, &random).unwrap();
    let pair = |kind| EcdsaKeyPair::from_pkcs8(kind, drawn.as_ref(), &random).unwrap();
    let (signer, der) = (Signer::P256(pair(fixed)), Signer::P256(pair(der)));
    let access = of(signer.jwk("k"));
    assert_eq!(who(&access, &der.jwt("k", &claims())), Err(JwtFault::Signature));
    assert_eq!(who(&access, &signer.jwt("k", &claims())), Ok("shards".to_owned()));
}

#[test]
fn a_header_that_is_odd_or_demands_more_is_refused() {
    let signer = Signer::ed25519();
    let access = of(signer.jwk("k"));
    let shown =
        |header: Value| who(&access, &compose(&header, &claims(), |message| signer.sign(message)));
    for crit in [json!(["b64"]), json!([]), json!(null), json!("exp")] {
        let header = json!({ "alg": "EdDSA", "kid": "k", "b64": true, "crit": crit });
        assert_eq!(shown(header), Err(JwtFault::Critical), "{crit}");
    }
    for header in [
        json!({ "kid": "k" }),
        json!({ "alg": ["EdDSA"], "kid": "k" }),
        json!({ "alg": "EdDSA", "kid": 7 }),
        json!({ "alg": "EdDSA", "kid": null }),
        json!(["EdDSA"]),
        json!("EdDSA"),
    ] {
        assert_eq!(shown(header.clone()), Err(JwtFault::Header), "{header}");
    }
    // A key in the header is not looked at.
    let forger = Signer::ed25519();
    let header =
        json!({ "alg": "EdDSA", "kid": "k", "jwk": forger.jwk("k"), "jku": "https://x.example" });
    let forged = compose(&header, &claims(), |message| forger.sign(message));
    assert_eq!(who(&access, &forged), Err(JwtFault::Signature));
    assert_eq!(shown(header), Ok("shards".to_owned()));
}

#[test]
fn a_jwt_that_is_too_long_is_not_read() {
    let signer = Signer::ed25519();
    let access = of(signer.jwk("k"));
    let padded = |length: usize| signer.jwt("k", &with("pad", json!("x".repeat(length))));
    let (fits, long) = (padded(5_500), padded(6_200));
    assert!(fits.len() > 7_500 && fits.len() <= 8192 && long.len() > 8192);
    assert_eq!(who(&access, &fits), Ok("shards".to_owned()));
    assert_eq!(who(&access, &long), Err(JwtFault::TooLong));
}

#[test]
fn what_is_no_jwt_is_nobodys_and_what_is_no_base64url_has_no_form() {
    let signer = Signer::ed25519();
    let access = of(signer.jwk("k"));
    let jwt = signer.jwt("k", &claims());
    let nobody = Ok("nobody".to_owned());
    for shown in ["", ".", "a.b", "tnr_a.b.c", &format!("{jwt}.x"), &format!("tnr_{jwt}")] {
        assert_eq!(who(&access, shown), nobody, "{shown}");
    }
    let padded = format!("{jwt}=");
    for shown in ["a.b.c.", "..", "ä.b.c", &padded, &jwt.replacen('.', "+.", 1)] {
        let found = who(&access, shown);
        let is_refused = matches!(found, Err(JwtFault::Form | JwtFault::Header)) || found == nobody;
        assert!(is_refused, "{shown}: {found:?}");
    }
}

#[test]
fn a_claim_that_is_there_twice_is_a_fault() {
    let signer = Signer::ed25519();
    let access = of(signer.jwk("k"));
    let header = BASE64.encode(json!({ "alg": "EdDSA", "kid": "k" }).to_string());
    let shown = |more: &str| {
        let text = claims().to_string();
        let text = format!("{}{more}}}", text.strip_suffix('}').unwrap());
        let message = format!("{header}.{}", BASE64.encode(text));
        who(&access, &format!("{message}.{}", BASE64.encode(signer.sign(message.as_bytes()))))
    };
    assert_eq!(shown(""), Ok("shards".to_owned()));
    for more in [
        format!(",\"iss\":\"{ISSUER}\""),
        ",\"aud\":\"tenure\"".to_owned(),
        format!(",\"exp\":{}", NOW_S + 60),
        format!(",\"nbf\":{NOW_S}"),
    ] {
        assert!(matches!(shown(&more), Err(JwtFault::Claims(_))), "{more}");
    }
}

#[test]
fn no_character_can_be_changed() {
    let signer = Signer::ed25519();
    let access = of(signer.jwk("k"));
    let jwt = signer.jwt("k", &claims());
    assert_eq!(who(&access, &jwt), Ok("shards".to_owned()));
    for at in 0..jwt.len() {
        for other in ["A", "_", "."] {
            let mut changed = jwt.clone();
            changed.replace_range(at..=at, other);
            let found = who(&access, &changed);
            let is_nobody = found.is_err() || found == Ok("nobody".to_owned());
            assert!(changed == jwt || is_nobody, "{at}: {found:?}");
        }
    }
}
