//! Asks before something is changed that can not be taken back easily.

use std::io::{BufRead, IsTerminal as _, Write};

use crate::failure::{Exit, Failure};

/// Whether to go on. Without a terminal only `--yes` can answer.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let what = "there is no terminal to ask on, so nothing was changed";
        let next = "add --yes to do it, or --dry-run to see what it would do";
        return Err(Failure::new(Exit::Invalid, what).next(next));
    }
    let answer = ask(question, &mut std::io::stdin().lock(), &mut std::io::stderr());
    answer.map_err(|error| Failure::new(Exit::Error, "no answer can be read").why(&error))
}

/// Anything but a yes is a no.
fn ask(question: &str, from: &mut impl BufRead, to: &mut impl Write) -> std::io::Result<bool> {
    write!(to, "{question} [y/N] ")?;
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_only_a_yes_is_a_yes() {
        for (typed, expected) in [
            ("y\n", true),
            ("Yes\n", true),
            (" y \n", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yo\n", false),
            ("no\ny\n", false),
        ] {
            let mut shown = Vec::new();
            let answer = ask("Delete?", &mut typed.as_bytes(), &mut shown).expect("in memory");
            assert_eq!(answer, expected, "{typed:?}");
            assert_eq!(shown, b"Delete? [y/N] ");
        }
    }
}
