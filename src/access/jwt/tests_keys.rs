//! The files of keys, and the tables that name them.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};

use super::{
    Keys,
    signer::{Signer, jwks},
    tests::{Dir, FILE, claims, who},
};

/// What is wrong with a file of this one key.
fn fault(key: Value) -> String {
    read(&jwks(&[key])).expect_err("a fault")
}

fn read(content: &str) -> Result<Keys, String> {
    Keys::read(|| Ok(content.to_owned()))
}

/// The key with another value of one field.
fn changed(key: &Value, field: &str, value: Value) -> Value {
    let mut key = key.clone();
    key[field] = value;
    key
}

/// A number in base64url: the first and the last of so many bits are set.
fn odd_number(bits: usize) -> String {
    let mut bytes = vec![0_u8; bits.div_ceil(8)];
    bytes[0] |= 1_u8 << ((bits - 1) % 8);
    *bytes.last_mut().unwrap() |= 1;
    BASE64.encode(bytes)
}

#[test]
fn a_key_of_rsa_has_2048_to_8192_bits() {
    let key = Signer::rsa().jwk("k");
    let with_bits = |bits: usize| changed(&key, "n", json!(odd_number(bits)));
    for bits in [1024, 2047, 8193] {
        let told = fault(with_bits(bits));
        assert!(told.contains(&format!("key 1 (\"k\") has {bits} bits")), "{told}");
        assert!(told.contains("from 2048 to 8192"), "{told}");
    }
    for bits in [2048, 3072, 8192] {
        assert!(read(&jwks(&[with_bits(bits)])).is_ok(), "{bits}");
    }
    // Zeros before a number count for nothing.
    let zeros = [vec![0; 200], BASE64.decode(odd_number(1024)).unwrap()].concat();
    assert!(fault(changed(&key, "n", json!(BASE64.encode(zeros)))).contains("has 1024 bits"));
    let n = BASE64.decode(key["n"].as_str().unwrap()).unwrap();
    let padded = changed(&key, "n", json!(BASE64.encode([vec![0], n].concat())));
    assert_eq!(read(&jwks(&[padded])), read(&jwks(std::slice::from_ref(&key))));
    for e in [&[1_u8][..], &[2], &[0], &[], &[1, 0, 0, 0, 1]] {
        let told = fault(changed(&key, "e", json!(BASE64.encode(e))));
        assert!(told.contains("numbers that no RSA key has"), "{told}");
    }
}

#[test]
fn a_key_that_lacks_something_is_told_with_its_name() {
    let (rsa, ec, ed) =
        (Signer::rsa().jwk("r"), Signer::p256().jwk("e"), Signer::ed25519().jwk("d"));
    for (key, problem) in [
        (changed(&rsa, "n", json!(null)), "key 1 (\"r\") has no n"),
        (changed(&rsa, "e", json!("+/")), "key 1 (\"r\") has a number e that is not base64url"),
        (changed(&ec, "y", json!(null)), "key 1 (\"e\") has no y"),
        (
            changed(&ec, "x", json!("AAAA")),
            "key 1 (\"e\") has a number x of 3 bytes, and not of 32",
        ),
        (changed(&ed, "x", json!("")), "key 1 (\"d\") has a number x of 0 bytes"),
        (changed(&changed(&ed, "kid", json!(null)), "x", json!(null)), "key 1 has no x"),
        // Nobody but the issuer may have these.
        (changed(&ec, "d", json!("AAAA")), "key 1 (\"e\") is private or secret"),
        (json!({ "kty": "oct", "k": "c2VjcmV0" }), "key 1 is private or secret"),
    ] {
        let told = fault(key);
        assert!(told.contains(problem), "{told}");
        assert!(!told.contains("c2VjcmV0"), "{told}");
    }
    let both = jwks(&[changed(&ec, "x", json!(null)), rsa.clone(), changed(&ed, "x", json!(null))]);
    let told = read(&both).unwrap_err();
    assert!(told.contains("key 1 (\"e\") has no x; key 3 (\"d\") has no x"), "{told}");
}

#[test]
fn what_is_not_for_these_signatures_is_left_out() {
    let (rsa, ec) = (Signer::rsa().jwk("r"), Signer::p256().jwk("e"));
    for key in [
        changed(&rsa, "use", json!("enc")),
        changed(&rsa, "alg", json!("RS512")),
        changed(&rsa, "alg", json!("RSA-OAEP")),
        changed(&rsa, "key_ops", json!(["encrypt"])),
        changed(&ec, "crv", json!("P-384")),
        changed(&ec, "crv", json!(null)),
        changed(&ec, "kty", json!("ML-DSA")),
        json!({ "kty": "OKP", "crv": "Ed448", "x": "AAAA" }),
    ] {
        assert!(fault(key.clone()).contains("has no public key for signatures"), "{key}");
        assert_eq!(read(&jwks(&[key, ec.clone()])).unwrap().all().len(), 1);
    }
    let mut bare = rsa.clone();
    for field in ["use", "alg", "kid"] {
        bare.as_object_mut().unwrap().remove(field);
    }
    let verifies = changed(&rsa, "key_ops", json!(["verify"]));
    assert_eq!(read(&jwks(&[bare.clone()])).unwrap().all().len(), 1);
    assert_eq!(read(&jwks(&[ec.clone(), verifies.clone()])).unwrap().all().len(), 2);
    // Otherwise one JWT would cost a verification for each key.
    assert!(read(&jwks(&[bare, verifies])).unwrap_err().contains("a key has no kid"));
    let twice = read(&jwks(&[ec.clone(), ec.clone()])).unwrap_err();
    assert!(twice.contains("two keys for one algorithm have the kid"), "{twice}");
    let named = |n: usize| changed(&ec, "kid", json!(n.to_string()));
    let many = |count: usize| read(&jwks(&(0..count).map(named).collect::<Vec<_>>()));
    assert!(many(16).is_ok() && many(17).unwrap_err().contains("has 17 keys"));
    for content in ["", "[]", "{}", "{\"keys\": {}}", "{\"keys\": [7]}", "{\"keys\": [{}]}"] {
        assert!(read(content).unwrap_err().starts_with("is no JWKS"), "{content}");
    }
}

#[test]
fn the_file_of_keys_is_beside_the_access_file_and_nobody_else_may_write_it() {
    let signer = Signer::ed25519();
    let keys = jwks(&[signer.jwk("k")]);
    let dir = Dir::new();
    dir.write("ci.json", &keys, 0o644);
    let told = |dir: &Dir| dir.faults(FILE).join("\n");
    let missing = told(&dir);
    assert!(
        missing.starts_with("access.toml:4: jwt.keys: \"jwks.json\": cannot be read"),
        "{missing}"
    );
    for mode in [0o620, 0o602] {
        dir.write("jwks.json", &keys, mode);
        let open = told(&dir);
        assert!(
            open.starts_with(&format!(
                "access.toml:4: jwt.keys: \"jwks.json\": has mode {mode:04o}"
            )),
            "{open}"
        );
    }
    dir.write("jwks.json", "{}", 0o644);
    assert!(told(&dir).starts_with("access.toml:4: jwt.keys: \"jwks.json\": is no JWKS"));
    dir.write("jwks.json", &" ".repeat((1 << 20) + 1), 0o644);
    assert!(told(&dir).contains("is longer than 1048576 bytes"));
    dir.write("jwks.json", &keys, 0o644);
    let access = dir.access(FILE);
    assert_eq!(who(&access, &signer.jwt("k", &claims())), Ok("shards".to_owned()));
    assert_eq!(access.warnings(), [""; 0]);
}

#[test]
fn a_fault_of_a_table_names_its_line() {
    let dir = Dir::new();
    dir.write("k.json", &jwks(&[Signer::ed25519().jwk("k")]), 0o600);
    let issuer = "[[jwt]]\nissuer = \"i\"\nkeys = \"k.json\"\naudience = \"tenure\"\n";
    let principal = |jwt: &str| {
        format!("[[principal]]\nname = \"w\"\njwt = {jwt}\nmay = [{{ verb = \"observe\" }}]\n")
    };
    let good = principal("{ issuer = \"i\", sub = \"s\" }");
    assert_eq!(dir.access(&format!("{issuer}{good}")).principals().len(), 1);
    // Where the tables are does not matter.
    assert_eq!(dir.access(&format!("{good}{issuer}")).principals().len(), 1);
    let of_issuer = |lines: &str| format!("[[jwt]]\nissuer = \"i\"\n{lines}\n{good}");
    let of_principal = |jwt: &str| format!("{issuer}{}", principal(jwt));
    for (content, expected) in [
        (good.clone(), "3: principal.jwt: names the issuer \"i\", which no table [[jwt]] has"),
        (of_issuer("keys = \"k.json\""), "1: jwt.audience: is missing"),
        (of_issuer("audience = \"a\""), "1: jwt.keys: is missing"),
        (of_issuer("keys = \"k.json\"\naudience = \"\""), "4: jwt.audience: must not be empty"),
        (of_issuer("keys = 7\naudience = \"a\""), "3: jwt.keys: is a number, and must be text"),
        (
            of_issuer("keys = \"k.json\"\naudience = \"a\"\nalg = \"RS256\""),
            "5: jwt.alg: is unknown: an issuer has",
        ),
        (
            of_issuer("keys = \"k.json\"\naudience = \"a\"\nmax_age = \"soon\""),
            "5: jwt.max_age: \"soon\" is no span",
        ),
        (
            of_issuer("keys = \"k.json\"\naudience = \"a\"\nmax_age = \"0s\""),
            "5: jwt.max_age: \"0s\" is no span",
        ),
        (
            of_issuer("keys = \"k.json\"\naudience = \"a\"\nmax_age = 60"),
            "5: jwt.max_age: is a number",
        ),
        (
            format!("{issuer}{issuer}{good}"),
            "6: jwt.issuer: is the issuer of another [[jwt]] too (the first is at line 2)",
        ),
        (
            format!("jwt = []\n{}", good.replace("jwt = {", "uid = 1 #")),
            "1: jwt: is an empty list: leave it out",
        ),
        (
            format!("jwt = 1\n{}", good.replace("jwt = {", "uid = 1 #")),
            "1: jwt: must be a list of tables: write [[jwt]]",
        ),
        (of_principal("\"s\""), "7: principal.jwt: is text, and must be a table"),
        (of_principal("[]"), "7: principal.jwt: is an empty list"),
        (of_principal("{ sub = \"s\" }"), "7: principal.jwt.issuer: is missing"),
        (of_principal("{ issuer = \"i\" }"), "7: principal.jwt.sub: is missing"),
        (
            of_principal("{ issuer = \"i\", sub = \"a*b\" }"),
            "7: principal.jwt.sub: \"a*b\" has a *",
        ),
        (of_principal("{ issuer = \"i\", sub = \"\" }"), "7: principal.jwt.sub: must not be empty"),
        (
            of_principal("{ issuer = \"i\", sub = \"s\", aud = \"a\" }"),
            "7: principal.jwt.aud: is unknown",
        ),
        (
            of_principal("[{ issuer = \"i\", sub = \"s\" }, { issuer = \"i\", sub = \"s\" }]"),
            "7: principal.jwt: is in the file twice",
        ),
    ] {
        let faults = dir.faults(&content);
        let told = faults.first().and_then(|fault| fault.strip_prefix("access.toml:"));
        assert_eq!(faults.len(), 1, "{content}\n{faults:#?}");
        assert!(told.is_some_and(|told| told.starts_with(expected)), "{content}\n{faults:#?}");
    }
}
