//! Runs the commands that people use, and shows them with their real output.

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use testbed::Playground;

/// What the demo could not show, and what was seen instead.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<testbed::Error> for Failure {
    fn from(error: testbed::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<devcluster::Error> for Failure {
    fn from(error: devcluster::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Where the demo happens.
pub(crate) struct Stage<'a> {
    pub(crate) playground: &'a Playground,
    copyrator: PathBuf,
}

/// What a command wrote, as shown.
pub(crate) struct Shown {
    command: String,
    pub(crate) succeeded: bool,
    pub(crate) text: String,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(playground: &'a Playground, copyrator: &Path) -> Stage<'a> {
        Stage { playground, copyrator: copyrator.to_owned() }
    }

    /// Runs kubectl as admin, shows it, and requires that it succeeds.
    pub(crate) fn kubectl(&self, arguments: &str) -> Result<Shown, Failure> {
        let shown = self.attempt(arguments)?;
        if shown.succeeded { Ok(shown) } else { Err(shown.unlike("succeed")) }
    }

    /// Runs kubectl as admin, shows it, and requires that it is refused.
    pub(crate) fn refused(&self, arguments: &str) -> Result<Shown, Failure> {
        let shown = self.attempt(arguments)?;
        if shown.succeeded { Err(shown.unlike("be refused")) } else { Ok(shown) }
    }

    /// Runs helm as admin, shows it, and requires that it succeeds.
    pub(crate) fn helm(&self, arguments: &str) -> Result<Shown, Failure> {
        let mut command = self.playground.cluster().helm()?;
        command.args(words(arguments)).current_dir(top());
        let shown = show(&format!("helm {arguments}"), &mut command)?;
        if shown.succeeded { Ok(shown) } else { Err(shown.unlike("succeed")) }
    }

    /// Runs `copyrator` and shows it.
    pub(crate) fn copyrator(&self, arguments: &str) -> Result<Shown, Failure> {
        show(&format!("copyrator {arguments}"), &mut self.of_copyrator(arguments))
    }

    /// Waits, without a word, until `copyrator doctor` finds nothing, or for half a minute.
    pub(crate) fn until_well(&self) -> Result<(), Failure> {
        for _ in 0..60 {
            if self.of_copyrator("doctor").output()?.status.success() {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn of_copyrator(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.copyrator);
        command.args(arguments.split(' ')).env("KUBECONFIG", self.playground.cluster().admin_kubeconfig());
        command
    }

    /// Shows a file of the repository.
    pub(crate) fn cat(&self, file: &str) -> Result<Shown, Failure> {
        show(&format!("cat {file}"), Command::new("cat").arg(file).current_dir(top()))
    }

    fn attempt(&self, arguments: &str) -> Result<Shown, Failure> {
        let mut command = self.playground.cluster().kubectl();
        command.args(words(arguments)).current_dir(top());
        show(&format!("kubectl {arguments}"), &mut command)
    }
}

impl Shown {
    /// Requires a piece of text in what was shown.
    pub(crate) fn says(&self, expected: &str) -> Result<(), Failure> {
        if self.text.contains(expected) { Ok(()) } else { Err(self.unlike(&format!("say {expected:?}"))) }
    }

    pub(crate) fn unlike(&self, expected: &str) -> Failure {
        Failure(format!("`{}` should {expected}, but said:\n{}", self.command, self.text.trim_end()))
    }
}

/// A new part of the demo.
pub(crate) fn heading(text: &str) {
    let coloured =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match coloured {
        true => println!("\n\x1b[1m{text}\x1b[0m"),
        false => println!("\n{text}"),
    }
}

/// A line about what goes on before there are commands.
pub(crate) fn say(text: &str) {
    println!("  {text}");
}

/// A sentence beside the commands.
pub(crate) fn note(text: &str) {
    println!("# {text}");
}

fn show(words: &str, command: &mut Command) -> Result<Shown, Failure> {
    println!("$ {words}");
    let Output { status, stdout, stderr } = command.output()?;
    // Warnings and refusals come on standard error, before what they warn of.
    let text = format!("{}{}", String::from_utf8_lossy(&stderr), String::from_utf8_lossy(&stdout));
    println!("{}", text.trim_end());
    Ok(Shown { command: words.to_owned(), succeeded: status.success(), text })
}

/// The words of a command line as a shell would take them apart, with single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(character)),
        }
    }
    words
}

/// The top of the repository, where the commands shown work for everybody.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words("get -p '{\"a\": 1}' x"), ["get", "-p", "{\"a\": 1}", "x"]);
        assert_eq!(words("--for=jsonpath='{.a}'=1"), ["--for=jsonpath={.a}=1"]);
    }
}
