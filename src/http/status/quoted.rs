//! Names as arguments of a command. A caller chooses them, and somebody copies the command into a shell.

/// The name as a part of an argument of a POSIX shell.
pub fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@=+,-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// The name as the last arguments of a command.
pub fn argument(name: &str) -> String {
    let quoted = quoted(name);
    if name.starts_with('-') { format!("-- {quoted}") } else { quoted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_argument_whatever_it_holds() {
        for (name, shown) in [
            ("jobs/17", "jobs/17"),
            ("two words", "'two words'"),
            ("$(reboot)", "'$(reboot)'"),
            ("a'; reboot; '", r"'a'\''; reboot; '\'''"),
            ("--help", "-- --help"),
            ("-n x", "-- '-n x'"),
            ("ü", "'ü'"),
            ("", "''"),
        ] {
            assert_eq!(argument(name), shown);
        }
    }
}
