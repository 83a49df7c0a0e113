use super::{
    tests::{faults, file, sources},
    *,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn nats(sets: &[&str]) -> Vec<String> {
    let sources = sets.iter().fold(sources(None), |sources, set| sources.set(set));
    match sources.environment([("TENURE__STORE__NATS__TOKEN", "t")]).load() {
        Ok(_) => Vec::new(),
        Err(found) => found.0.iter().map(ToString::to_string).collect(),
    }
}

fn of_plugin(content: &str) -> Vec<String> {
    let file = file(&format!("[[plugin]]\nname = \"p\"\n{content}\n"));
    match sources(Some(file.path())).load() {
        Ok(_) => Vec::new(),
        Err(found) => found.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn credentials_go_to_another_machine_by_tls_or_are_accepted_in_plain_text() {
    let far = "store.nats.url=nats://10.0.0.7:4222";
    let [fault] = &nats(&[far])[..] else { panic!("one fault") };
    assert!(fault.contains("store.nats.url") && fault.contains("tls://"), "{fault}");
    assert!(fault.contains("accept_plaintext = true"), "{fault}");
    for url in [
        "nats://127.0.0.1,nats://10.0.0.7",
        "nats://localhost.evil.example",
        "nats://127.0.0.1.evil.example",
    ] {
        assert_eq!(nats(&[&format!("store.nats.url={url}")]).len(), 1, "{url}");
    }
    for url in
        ["nats://127.0.0.1:4222,nats://[::1]", "nats://localhost", "tls://10.0.0.7,nats://10.0.0.8"]
    {
        assert_eq!(nats(&[&format!("store.nats.url={url}")]), [""; 0], "{url}");
    }
    for set in [
        "store.nats.tls_ca=ca.pem",
        "store.nats.tls_required=true",
        "store.nats.accept_plaintext=true",
    ] {
        assert_eq!(nats(&[far, set]), [""; 0], "{set}");
    }
    assert!(sources(None).set(far).load().is_ok(), "there are no credentials");
    for of_user in
        ["user = \"u\"\npassword_file = \"p\"", "credentials = \"c\"", "token_file = \"t\""]
    {
        let file = file(&format!("[store.nats]\nurl = \"nats://10.0.0.7\"\n{of_user}\n"));
        assert_eq!(faults(&sources(Some(file.path()))).len(), 1, "{of_user}");
    }
}

#[test]
fn tls_is_required_as_soon_as_one_of_its_settings_is_made() {
    let with = |change: fn(&mut Nats)| {
        let mut nats = Nats::default();
        change(&mut nats);
        nats.requires_tls()
    };
    assert!(!with(|_| ()));
    assert!(with(|nats| nats.tls_ca = "ca.pem".into()));
    assert!(with(|nats| nats.tls_cert = "c.pem".into()));
    assert!(with(|nats| nats.tls_key = "c.key".into()));
    assert!(with(|nats| nats.tls_required = true));
    assert!(with(|nats| nats.url = "nats://a, tls://b".into()));
}

#[test]
fn plugins_tell_no_secret_in_plain_text_unless_that_is_accepted() {
    let hook = |url: &str| format!("kind = \"webhook\"\nurl = \"{url}\"\nsecrets = [\"{SECRET}\"]");
    let bus =
        |url: &str| format!("kind = \"nats\"\nsubject = \"f\"\ntoken = \"t\"\nurl = \"{url}\"");
    let cases = [
        (hook("http://10.0.0.7/"), hook("https://10.0.0.7/"), hook("http://127.0.0.1:8080/")),
        (hook("http://localhost.evil.example"), hook("https://a/"), hook("http://localhost/")),
        (bus("nats://10.0.0.7"), bus("tls://10.0.0.7"), bus("nats://127.0.0.1")),
    ];
    for (open, secure, here) in cases {
        let [fault] = &of_plugin(&open)[..] else { panic!("{open}: one fault") };
        assert!(fault.contains("plugin.url: is plain text to another machine"), "{fault}");
        assert!(fault.contains("accept_plaintext = true") && !fault.contains(SECRET), "{fault}");
        for fine in [&secure, &here, &format!("{open}\naccept_plaintext = true")] {
            assert_eq!(of_plugin(fine), [""; 0], "{fine}");
        }
    }
    let nobody = "kind = \"nats\"\nsubject = \"f\"\naccept_plaintext = true";
    assert!(of_plugin(nobody)[0].contains("accept_plaintext: needs url"));
}

#[cfg(feature = "postgres")]
#[test]
fn a_password_of_postgresql_goes_to_another_machine_by_tls_however_the_url_is_written() {
    let url = |url: &str| of_plugin(&format!("kind = \"postgres\"\nurl = \"{url}\""));
    for open in [
        "postgres://u:hunter2@10.0.0.7/d",
        "postgres://u:hunter2@10.0.0.7/d?sslmode=prefer",
        "postgres://u:hunter2@127.0.0.1,10.0.0.7/d",
        "postgres://u:hunter2@localhost.evil.example/d",
        "postgres://u@10.0.0.7/d?password=hunter2",
        "postgres://u:hunter2@127.0.0.1/d?hostaddr=10.0.0.7",
        "postgres://u:hunter2@/d?host=10.0.0.7",
    ] {
        let [fault] = &url(open)[..] else { panic!("{open}: one fault") };
        assert!(fault.contains("plugin.url") && fault.contains("sslmode=require"), "{fault}");
        assert!(!fault.contains("hunter2"), "{fault}");
    }
    for fine in [
        "postgres://u:hunter2@10.0.0.7/d?sslmode=require",
        "postgres://u:hunter2@127.0.0.1,[::1]/d",
        "postgres://u:hunter2@%2Fvar%2Frun%2Fpostgresql/d",
        "postgres://u@10.0.0.7/d",
    ] {
        assert_eq!(url(fine), [""; 0], "{fine}");
    }
    let accepted =
        "kind = \"postgres\"\nurl = \"postgres://u:hunter2@10.0.0.7/d\"\naccept_plaintext = true";
    assert_eq!(of_plugin(accepted), [""; 0]);
    // The file is checked before the server starts.
    let secret = file("postgres://u:hunter2@10.0.0.7/d\n");
    let content =
        format!("[[plugin]]\nname = \"p\"\nkind = \"postgres\"\nurl_file = {:?}\n", secret.path());
    let content = file(&content);
    let loaded = sources(Some(content.path())).load().unwrap();
    let fault = loaded.check_files().unwrap_err().to_string();
    assert!(fault.contains("url_file") && fault.contains("sslmode=require"), "{fault}");
    assert!(!fault.contains("hunter2"), "{fault}");
}
