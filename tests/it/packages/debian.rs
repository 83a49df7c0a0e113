//! The Debian package: its unit, user, directories and settings.

use std::{collections::BTreeSet, path::Path};

use crate::packages::{repository, settings};

const UNIT: &str = "packaging/systemd/tenure.service";
const CONFFILE: &str = "packaging/tenure.toml";

/// The values of one key of a unit.
fn of_unit(key: &str) -> Vec<String> {
    let text = repository(UNIT);
    let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

fn one(key: &str) -> String {
    let values = of_unit(key);
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0].clone()
}

/// The value that follows an option of the unit's command.
fn option(name: &str) -> String {
    let command = one("ExecStart");
    let value = command.split_whitespace().skip_while(|word| *word != name).nth(1);
    value.unwrap_or_else(|| panic!("{name} is not in {command}")).to_owned()
}

#[test]
fn settings_and_unit_name_the_same_directories() {
    let read = settings(Some(CONFFILE), &[]).expect("settings without a fault");
    let state = format!("/var/lib/{}", one("StateDirectory"));
    // `tenure restore --config` finds the store that the service has.
    assert_eq!(option("--data-dir"), state);
    assert_eq!(read.store.embedded.data_dir, Path::new(&state));
    assert_eq!(one("WorkingDirectory"), state);
    assert!(read.node.witness.starts_with(&state), "{}", read.node.witness.display());
    assert!(read.server.listen.ip().is_loopback(), "nobody else may call a fresh install");
    // The paths that the comments propose are ones that the service may use.
    let text = repository(CONFFILE);
    let proposed = |setting: &str| {
        let start = format!("# {setting} = \"");
        let path = text.lines().find_map(|line| line.strip_prefix(start.as_str()));
        path.unwrap_or_else(|| panic!("{setting} is not proposed")).to_owned()
    };
    let runtime = format!("/run/{}/", one("RuntimeDirectory"));
    assert!(proposed("listen_uds").starts_with(&runtime), "{runtime}");
    assert!(proposed("file").starts_with("/etc/tenure/"));
}

#[test]
fn the_shipped_settings_are_the_defaults_but_for_the_directories() {
    let read = settings(Some(CONFFILE), &[]).expect("settings without a fault");
    let defaults = settings(None, &[]).expect("the defaults");
    assert_eq!(read.server.listen, defaults.server.listen);
    assert_eq!(read.store.kind, defaults.store.kind);
    assert_ne!(read.store.embedded.data_dir, defaults.store.embedded.data_dir);
}

#[test]
fn the_user_of_the_unit_is_the_one_that_is_made() {
    let made = repository("packaging/sysusers.d/tenure.conf");
    let line = made.lines().find(|line| line.starts_with("u ")).expect("a user");
    assert_eq!(line.split_whitespace().nth(1), Some(one("User").as_str()));
    assert_eq!(one("User"), one("Group"));
    let home = line.split_whitespace().last().expect("a home");
    assert_eq!(home, option("--data-dir"));
    let postinst = repository("packaging/debian/postinst");
    let user = one("User");
    assert!(postinst.contains(&format!(
        "install -d -o {user} -g {user} -m {} {home}",
        one("StateDirectoryMode")
    )));
    // A purge leaves nothing of what the service wrote.
    let postrm = repository("packaging/debian/postrm");
    assert!(postrm.contains(&format!("rm -rf {home} /var/log/{}", one("LogsDirectory"))));
}

#[test]
fn the_unit_waits_for_the_coordinator_and_confines_it() {
    assert_eq!(one("Type"), "notify");
    for key in [
        "NoNewPrivileges",
        "MemoryDenyWriteExecute",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectHome",
        "ProtectKernelModules",
        "RestrictSUIDSGID",
    ] {
        assert_eq!(one(key), "yes", "{key}");
    }
    assert_eq!(
        (one("ProtectSystem"), one("CapabilityBoundingSet")),
        ("strict".into(), String::new())
    );
    assert_eq!(one("RestartPreventExitStatus"), "78", "the exit code of faulty settings");
}

#[test]
fn what_the_package_installs_is_what_the_unit_and_the_scripts_use() {
    let manifest: toml::Table = repository("Cargo.toml").parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().expect("a list");
    let stage = repository("packaging/dist");
    let mut installed = BTreeSet::new();
    for asset in assets {
        let part = |at: usize| asset[at].as_str().expect("text");
        let (from, to, mode) = (part(0), part(1), part(2));
        let from = from.strip_prefix("dist/stage/").expect("every file comes from the stage");
        assert_eq!(mode == "755", to == "usr/bin/", "{from}");
        // packaging/dist puts something there.
        let parent =
            |path: &str| path.rsplit_once('/').map_or(path, |(parent, _)| parent).to_owned();
        let folder = parent(from);
        // A tree is copied with its own name.
        let folder = folder.strip_suffix("/**").map_or_else(|| folder.clone(), parent);
        let made = folder.strip_prefix("share/").unwrap_or(&folder);
        assert!(stage.contains(made), "nothing makes {made}");
        let name = from.rsplit('/').next().expect("a name");
        installed.insert(format!("/{to}{name}"));
    }
    let command = one("ExecStart");
    let program = command.split_whitespace().next().expect("a program");
    for path in [program, &option("--config"), "/usr/lib/sysusers.d/tenure.conf"] {
        assert!(installed.contains(path), "{path} is not among {installed:?}");
    }
    let unit = &deb["systemd-units"];
    assert_eq!(
        unit["unit-name"].as_str(),
        Path::new(UNIT).file_stem().and_then(|name| name.to_str())
    );
    for script in ["postinst", "postrm", "prerm"] {
        assert!(repository(&format!("packaging/debian/{script}")).contains("\n#DEBHELPER#\n"));
    }
}
