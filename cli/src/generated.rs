//! The texts that are generated from the definition of the command line: manual page and completion
//! scripts. The folder `share` contains them for packages.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

/// Returns the completion script for a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "distlock", &mut text);
    text
}

/// Returns the manual page, which contains those of the subcommands.
pub(crate) fn manual() -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let command = Args::command();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    for command in command.get_subcommands() {
        let title = format!(".SH \"DISTLOCK {}\"\n", command.get_name().to_uppercase());
        text.extend_from_slice(title.as_bytes());
        let command = command.clone().bin_name(format!("distlock {}", command.get_name()));
        let man = clap_mangen::Man::new(command);
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn folder_share_is_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("share");
        for (name, text) in [
            ("distlock.1", manual().expect("a page")),
            ("distlock.bash", completions(Shell::Bash)),
            ("distlock.fish", completions(Shell::Fish)),
            ("_distlock", completions(Shell::Zsh)),
        ] {
            let file = folder.join(name);
            if env::var_os("DISTLOCK_BLESS").is_some() {
                fs::write(&file, &text).expect("it is written");
            }
            let stored = fs::read(&file).unwrap_or_default();
            let advice = "run: DISTLOCK_BLESS=1 cargo test --package distlock-cli --bins";
            assert!(stored == text, "share/{name} is out of date; {advice}");
        }
    }
}
