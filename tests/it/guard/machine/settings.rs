//! How the times must fit.

use tenure::worker::guard::{Misfit, Settings};

use super::bench::ms;

#[test]
fn what_follows_from_the_round_fits_whatever_the_round_is() {
    for round in [600, 1000, 3000, 60_000] {
        for failures in [1, 2, 3, 10] {
            let settings = Settings::of(ms(round), failures, 2);
            assert_eq!(settings.check(), Ok(()), "{settings:?}");
            assert_eq!(settings.ttl, ms(round) * failures);
        }
    }
}

#[test]
fn times_that_do_not_fit_are_refused_in_words() {
    let mut late = Settings::of(ms(3000), 3, 2);
    late.deactivate_timeout = ms(3600);
    assert_eq!(late.check(), Ok(()), "half of the ttl, with the margin");
    late.deactivate_timeout = ms(3601);
    let refused = late.check().unwrap_err();
    assert!(matches!(refused, Misfit::Deactivation { .. }));
    let words = refused.to_string();
    for word in ["--deactivate-timeout 3.601s", "900ms", "ttl 9s", "raise --ttl"] {
        assert!(words.contains(word), "{words}");
    }

    let mut slow = Settings::of(ms(1000), 3, 2);
    slow.check_timeout = ms(3001);
    assert!(slow.check().unwrap_err().to_string().contains("R*F = 3s"));

    for (zero, name) in [(ms(0), "-r"), (ms(1000), "-f")] {
        let settings = Settings::of(zero, 0, 2);
        let settings = Settings {
            ttl: ms(3000),
            deactivate_timeout: ms(1000),
            check_timeout: ms(1),
            fence_timeout: ms(1),
            activate_timeout: ms(1),
            ..settings
        };
        assert_eq!(settings.check().unwrap_err(), Misfit::Zero(name));
    }
}

#[test]
fn rests_double_up_to_an_end() {
    let settings = Settings::of(ms(1000), 3, 2);
    let rests: Vec<_> = [1, 2, 3, 5, 6, 40].map(|n| settings.rest(n).as_secs()).into();
    assert_eq!(rests, [3, 6, 12, 48, 48, 48]);
}
