//! The container image, as the script makes it. `packaging/try-image` runs it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::packages::{IN_IMAGE, ROOT, list, settings, text};

/// Makes an image, with a small file in the place of the program.
fn build(output: &Path) {
    let status = Command::new("python3")
        .arg("packaging/oci.py")
        .args(["build", "--binary", "LICENSE", "--licence", "LICENSE", "--ca", "SECURITY.md"])
        .args(["--version", "1.2.3", "--output"])
        .arg(output)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(ROOT)
        .status();
    assert!(status.expect("python3 runs").success());
}

/// Unpacks an image, and returns its configuration.
fn unpack(image: &Path, to: &Path) -> Result<Value, String> {
    let output = Command::new("python3")
        .args(["packaging/oci.py", "unpack", "--image"])
        .arg(image)
        .arg("--to")
        .arg(to)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(ROOT)
        .output()
        .expect("python3 runs");
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn words(value: &Value) -> Vec<&str> {
    list(value, "a command").iter().map(|word| text(word, "a word")).collect()
}

#[test]
fn the_image_starts_and_is_watched_by_paths_that_are_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, root) = (dir.path().join("image.tar"), dir.path().join("root"));
    build(&image);
    let config = unpack(&image, &root).expect("an image");
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    assert_eq!(words(&config["Entrypoint"]), ["/usr/bin/tenure"]);
    assert_eq!(words(&config["Cmd"]), ["serve"]);
    assert_eq!(words(&config["Healthcheck"]["Test"]), ["CMD", "/usr/bin/tenure", "ready"]);
    assert!(inside("/usr/bin/tenure").is_file());
    assert_eq!(config["User"], "65532:65532");
    let variable =
        words(&config["Env"]).into_iter().find_map(|one| one.strip_prefix("TENURE_CONFIG="));
    let file = inside(variable.expect("a file of settings"));
    let shipped = fs::read_to_string(Path::new(ROOT).join(IN_IMAGE)).expect("settings");
    assert_eq!(fs::read_to_string(file).expect("it is in the image"), shipped);
    for path in ["/etc/passwd", "/etc/group", "/etc/ssl/certs/ca-certificates.crt"] {
        assert!(inside(path).is_file(), "{path}");
    }
    assert!(!inside("/bin").exists(), "no shell");
}

#[test]
fn the_settings_in_the_image_fit_its_volume_and_port_and_want_to_know_who_may_call() {
    let refused = settings(Some(IN_IMAGE), &[]).expect_err("nobody said who may call");
    assert!(refused.contains("auth.file") && refused.contains("server.listen"), "{refused}");
    let open = [("TENURE__SERVER__ACCEPT_NO_AUTH".to_owned(), "true".to_owned())];
    let read = settings(Some(IN_IMAGE), &open).expect("settings without a fault");
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image.tar");
    build(&image);
    let config = unpack(&image, &dir.path().join("root")).expect("an image");
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(keys(&config["ExposedPorts"]), [format!("{}/tcp", read.server.listen.port())]);
    let volumes = keys(&config["Volumes"]);
    assert_eq!(volumes.len(), 1);
    assert_eq!(read.store.embedded.data_dir, PathBuf::from(&volumes[0]));
    assert!(read.node.witness.starts_with(&volumes[0]));
    // The probe's default address is the one that the settings listen on.
    let default = settings(None, &[]).expect("the defaults").server.listen;
    assert_eq!(read.server.listen.port(), default.port());
    assert!(read.server.listen.ip().is_unspecified());
}

#[test]
fn an_image_is_the_same_each_time_and_a_changed_one_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("first.tar"), dir.path().join("second.tar"));
    build(&first);
    build(&second);
    let mut bytes = fs::read(&first).expect("an image");
    assert!(bytes == fs::read(&second).expect("an image"), "two images of one commit differ");
    // One bit of a layer, behind the header of its compression.
    let layer = bytes.windows(3).position(|three| three == [0x1f, 0x8b, 8]).expect("a layer");
    bytes[layer + 20] ^= 1;
    fs::write(&second, bytes).expect("written");
    let fault = unpack(&second, &dir.path().join("root")).expect_err("a damaged image");
    assert!(fault.contains("has other bytes"), "{fault}");
}
