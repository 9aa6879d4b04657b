//! `atoll completions` and `atoll man`: what a shell and `man` know of the program.

use clap::{Args, CommandFactory};
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Print completions for a shell: source them, or put them where the shell looks
#[derive(Args, Debug)]
pub(crate) struct CompletionsCommand {
    /// The shell
    shell: clap_complete::Shell,
}

/// Write manual pages, one for each command
#[derive(Args, Debug)]
pub(crate) struct ManCommand {
    /// An existing directory; the pages go into its `man1`, so that MANPATH can name it
    directory: PathBuf,
}

impl CompletionsCommand {
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut super::Command::command(), "atoll", &mut text);
        match std::io::stdout().write_all(&text) {
            // Who read it had enough: `| head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }
}

impl ManCommand {
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let shown = self.directory.display();
        if !self.directory.is_dir() {
            return Err(format!("{shown} is no directory: make it first").into());
        }
        let pages = self.directory.join("man1");
        std::fs::create_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
        clap_mangen::generate_to(super::Command::command(), &pages)
            .map_err(|error| format!("{}: {error}", pages.display()))?;
        let count = std::fs::read_dir(&pages)?.count();
        println!("{count} pages in {}: MANPATH={shown}: man atoll", pages.display());
        Ok(())
    }
}
