//! Where the story happens: runs the commands that people use, and keeps them with their real answers.

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::boundary::Inside;
use crate::failure::Failure;
use crate::node::Node;
use crate::options::{output, top};
use crate::transcript::Transcript;

/// How long anything may take that is waited for. Nothing takes nearly as long, but on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(100);

/// The cluster, and what was said so far.
#[derive(Debug)]
pub(crate) struct Scene {
    node: Node,
    transcript: Transcript,
}

/// What a command wrote, as shown.
#[derive(Debug)]
pub(crate) struct Shown {
    command: String,
    pub(crate) text: String,
}

impl Scene {
    /// Starts the cluster and its node.
    pub(crate) fn set(inside: &Inside) -> Result<Scene, Failure> {
        let transcript = Transcript::begin(output())?;
        Ok(Scene { node: Node::start(inside)?, transcript })
    }

    /// A new part of the story.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        self.node.check()?;
        self.transcript.heading(text)
    }

    /// A sentence beside the commands.
    pub(crate) fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.transcript.line(&format!("# {text}"))
    }

    /// Shows a file of this test.
    pub(crate) fn cat(&mut self, file: &str) -> Result<(), Failure> {
        let path = top().join(file);
        let text = fs::read_to_string(&path).map_err(Failure::at("read", &path))?;
        self.transcript.answer(&format!("cat {file}"), &text)
    }

    /// Runs kubectl as admin, shows it, and requires that it succeeds.
    pub(crate) fn kubectl(&mut self, line: &str) -> Result<Shown, Failure> {
        self.shown(&format!("kubectl {line}"), self.node.cluster().kubectl(), line, true)
    }

    /// Runs kubectl as admin, shows it, and requires that it is refused.
    pub(crate) fn refused(&mut self, line: &str) -> Result<Shown, Failure> {
        self.shown(&format!("kubectl {line}"), self.node.cluster().kubectl(), line, false)
    }

    /// Runs helm as admin, shows it, and requires that it succeeds.
    pub(crate) fn helm(&mut self, line: &str) -> Result<Shown, Failure> {
        self.shown(&format!("helm {line}"), self.node.cluster().helm()?, line, true)
    }

    /// What kubectl answers, or what it complains of. Nothing is shown.
    pub(crate) fn ask(&self, line: &str) -> Result<String, String> {
        let answer = self.node.cluster().kubectl().args(words(line)).current_dir(top()).output();
        match answer {
            Ok(Output { status, stdout, .. }) if status.success() => {
                Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
            }
            Ok(Output { stderr, .. }) => Err(String::from_utf8_lossy(&stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// kubectl as admin, to be left running.
    pub(crate) fn client(&self, line: &str) -> Command {
        let mut command = self.node.cluster().kubectl();
        command.args(words(line)).current_dir(top());
        command
    }

    /// Waits until `condition` no longer says what is amiss.
    pub(crate) fn eventually<T>(
        &self,
        what: &str,
        mut condition: impl FnMut(&Scene) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match condition(self) {
                Ok(value) => return Ok(value),
                Err(seen) if Instant::now() > deadline => {
                    return Err(Failure::new(format!("waited {} s for {what}: {seen}", PATIENCE.as_secs())));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Keeps what would explain a failure, beside the node's own logs.
    pub(crate) fn keep_evidence(&self) {
        let logs = output().join("logs");
        for (file, line) in [
            ("pods.txt", "get pods --all-namespaces --output=wide"),
            ("events.txt", "get events --all-namespaces"),
            (
                "webhook.txt",
                "logs -n copyrator-system -l app.kubernetes.io/component=webhook --prefix --tail=500",
            ),
            (
                "reconciler.txt",
                "logs -n copyrator-system -l app.kubernetes.io/component=reconciler --prefix --tail=500",
            ),
        ] {
            let (Ok(text) | Err(text)) = self.ask(line);
            let _ = fs::write(logs.join(file), text);
        }
    }

    /// The whole story, ended.
    pub(crate) fn end(self) -> String {
        self.transcript.end()
    }

    fn shown(
        &mut self,
        words_shown: &str,
        mut command: Command,
        line: &str,
        is_to_succeed: bool,
    ) -> Result<Shown, Failure> {
        command.args(words(line)).current_dir(top());
        let Output { status, stdout, stderr } =
            command.output().map_err(Failure::at("run", command.get_program().as_ref()))?;
        // Warnings and refusals come on standard error, before what they warn of.
        let text = format!("{}{}", String::from_utf8_lossy(&stderr), String::from_utf8_lossy(&stdout));
        // What the chart tells who installed it is in the chart.
        let text = text.split_once("\nNOTES:").map_or(text.as_str(), |(before, _)| before).to_owned();
        self.transcript.answer(words_shown, &text)?;
        let shown = Shown { command: words_shown.to_owned(), text };
        match (status.success(), is_to_succeed) {
            (true, false) => Err(shown.unlike("be refused")),
            (false, true) => Err(shown.unlike("succeed")),
            _ => Ok(shown),
        }
    }
}

impl Shown {
    /// Requires a piece of text in what was shown.
    pub(crate) fn says(&self, expected: &str) -> Result<(), Failure> {
        if self.text.contains(expected) { Ok(()) } else { Err(self.unlike(&format!("say {expected:?}"))) }
    }

    fn unlike(&self, expected: &str) -> Failure {
        Failure::new(format!("`{}` should {expected}, but said:\n{}", self.command, self.text.trim_end()))
    }
}

/// The words of a command line as a shell would take them apart, with single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(character)),
        }
    }
    words
}
