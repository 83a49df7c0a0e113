use std::time::Duration;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: GuardArgs,
}

const NEEDED: [&str; 11] = [
    "guard",
    "--key",
    "k",
    "--owner",
    "o",
    "--healthcheck",
    "h",
    "--activate",
    "a",
    "--deactivate",
    "d",
];

fn charge(more: &[&str]) -> Result<Charge, Failure> {
    let line = Line::try_parse_from(NEEDED.iter().chain(more)).expect("a line");
    line.args.charge()
}

#[test]
fn the_defaults_are_those_of_putex_and_fit() {
    let settings = charge(&[]).unwrap().settings;
    assert_eq!(settings, Settings::of(Duration::from_secs(3), 3, 2));
    assert_eq!(settings.ttl, Duration::from_secs(9));
    assert_eq!(settings.deactivate_timeout, Duration::from_secs(3));
}

#[test]
fn what_does_not_fit_is_a_usage_error() {
    for more in [
        &["--deactivate-timeout", "5s"][..],
        &["--ttl", "6s"],
        &["--healthcheck-timeout", "10s"],
        &["-f", "0"],
        &["-r", "100ms"],
    ] {
        let fits = charge(more).map(|charge| charge.settings);
        if more == ["--ttl", "6s"] {
            // The default time-out follows the ttl.
            assert_eq!(fits.unwrap().deactivate_timeout, Duration::from_secs(2));
        } else {
            assert!(matches!(fits, Err(Failure::Usage(_))), "{more:?}: {fits:?}");
        }
    }
    let charge = charge(&["--ttl", "30s", "--deactivate-timeout", "14s", "--fence", "f"]).unwrap();
    assert!(charge.settings.fence && charge.scripts.fence.as_deref() == Some("f"));
}
