//! Clusters with Copyrator in them, for tests.
//!
//! Most tests share one cluster where the operator runs undisturbed ([`peaceful`]); each keeps to namespaces of
//! its own ([`Story`]). Tests that kill processes share two others, one at a time in each ([`rough`]). Tests that break the
//! installation have one of their own ([`private`]). Whatever a test process started ends with it: devcluster's
//! reaper sees to that.

mod audit;
pub mod browser;
mod crowd;
mod eventually;
mod gate;
mod handshakes;
mod lanes;
mod logs;
pub mod objects;
mod paths;
mod person;
mod previous;
mod recorder;
mod story;
mod tools;
mod traffic;
mod workloads;

use std::path::Path;
use std::sync::OnceLock;

use devcluster::{Options, User};
use lanes::Lane;
use serde_json::{Value, json};
use testbed::{Operator, Prepared, Role, Testbed};

pub use audit::Request;
pub use crowd::Crowd;
pub use eventually::{eventually, same};
pub use gate::{Call, Fate, Gate};
pub use handshakes::Handshakes;
pub use lanes::Permit;
pub use person::{Answer, Person};
pub use previous::previous;
pub use story::Story;
pub use tools::chart;
pub use traffic::Traffic;

/// The program that is tested.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_copyrator");
/// A debug build on a busy machine does not always answer within the second or two that hooks have.
const HOOK_TIMEOUT: u8 = 10;
/// Flags of a reconciler whose hooks are as users have them: the doctor holds them against that.
pub const USUAL_TIMEOUTS: [&str; 2] = ["--hook-timeout", "0"];

/// A cluster with the chart installed.
pub struct Bed {
    /// The cluster, and what starts the operator.
    pub testbed: Testbed,
    /// Above all rights.
    pub admin: Person,
    /// Without rights but those a test binds.
    pub alice: Person,
    /// Likewise.
    pub bob: Person,
    audit: audit::Audit,
    /// Held as long as the cluster is there, if there is to be a limit to their number.
    _place: Option<Permit>,
}

/// The operator's processes.
pub struct Crew {
    /// Answers the API server's calls.
    pub webhook: Operator,
    /// Copies and restarts.
    pub reconciler: Operator,
}

impl Crew {
    /// Waits until the reconciler has swept once more; `kinds` are compared by content, ConfigMap and Secret among them. It logs a line for
    /// each of them in each sweep, and the next sweep may have begun before.
    pub fn until_swept(&self, kinds: usize) {
        let sweeps = || self.reconciler.log().matches("compared the copies with their sources").count();
        let swept = sweeps();
        eventually("everything has been swept", || {
            if sweeps() > swept + 2 * kinds { Ok(()) } else { Err(format!("{swept}, then {}", sweeps())) }
        });
    }

    /// Waits until the reconciler, which leads, has looked at everything that it had to look at.
    pub fn until_idle(&self) {
        eventually("no key waits, and none is being looked at", || {
            let (_, metrics) = self.reconciler.ask("/metrics").map_err(|error| error.to_string())?;
            let is_count = |line: &&str| {
                ["copyrator_queue_depth{", "copyrator_in_flight "].iter().any(|it| line.starts_with(it))
            };
            let counts: Vec<&str> = metrics.lines().filter(is_count).collect();
            let is_none = |line: &&str| line.ends_with(" 0") || line.ends_with(" 0.0");
            let is_idle = counts.len() > 1 && counts.iter().all(is_none);
            if is_idle { Ok(()) } else { Err(format!("{counts:?}")) }
        });
    }
}

impl Bed {
    fn start(name: &str, options: Options) -> Bed {
        let bed = Bed::unstamped(name, options);
        bed.until_stamped();
        bed
    }

    fn unstamped(name: &str, options: Options) -> Bed {
        static PREPARED: OnceLock<Prepared> = OnceLock::new();
        let prepared = PREPARED.get_or_init(|| Prepared::make().expect("a cluster is prepared"));
        let (options, program) = (peopled(options), Path::new(PROGRAM));
        let testbed = Testbed::begin_with(prepared, options, program, &logs::folder(name));
        Bed::over(testbed.expect("the test bed starts"))
    }

    fn over(testbed: Testbed) -> Bed {
        let testbed = testbed.with_hook_timeout(HOOK_TIMEOUT);
        let cluster = testbed.cluster();
        let user = |name| Person::with(&cluster.user(name).expect("a user of the cluster"));
        let admin = Person::with(cluster.admin_kubeconfig());
        Bed {
            admin,
            alice: user("alice"),
            bob: user("bob"),
            testbed,
            audit: Default::default(),
            _place: None,
        }
    }

    /// Starts both roles and waits until they are ready, the hooks are in place, and nothing of this is left over from
    /// those before: this reconciler leads, and this webhook is trusted.
    pub fn man(&self) -> Crew {
        self.man_with(&[])
    }

    /// The same, with flags for the reconciler.
    pub fn man_with(&self, flags: &[&str]) -> Crew {
        let reconciler = self.testbed.operator(Role::Reconciler, 0, flags).expect("the reconciler starts");
        // The chart gives both the same flags.
        let webhook = self.testbed.operator(Role::Webhook, 0, flags).expect("the webhook starts");
        let mut crew = Crew { webhook, reconciler };
        crew.webhook.wait_ready().expect("the webhook becomes ready");
        crew.reconciler.wait_ready().expect("the reconciler becomes ready");
        self.testbed.wait_hooked().expect("the hooks are applied");
        self.until_led_by(&crew.reconciler);
        self.until_answered();
        crew
    }

    /// Waits until this one leads. It is ready before.
    #[track_caller]
    pub fn until_led_by(&self, reconciler: &Operator) {
        let pod = format!("{}_", reconciler.pod());
        eventually(&format!("the leader is {pod}…"), || {
            let leases = self.admin.list("Lease", testbed::NAMESPACE, "");
            let holders: Vec<&str> =
                leases.iter().filter_map(|lease| lease["spec"]["holderIdentity"].as_str()).collect();
            if holders.iter().any(|it| it.starts_with(&pod)) { Ok(()) } else { Err(format!("{holders:?}")) }
        });
    }

    /// Waits until the API server's calls reach a webhook that it trusts: hooks may be there from before.
    #[track_caller]
    pub fn until_answered(&self) {
        let spec =
            json!({ "source": { "kind": "ConfigMap", "names": ["a["] }, "targets": [{ "names": ["x"] }] });
        let nonsense = objects::ours("CopyratorRule", "default", "nonsense", spec);
        eventually("the webhook answers the API server", || {
            let answer = self.admin.try_create(&nonsense);
            let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
            if said.contains("spec.source.names[0]") {
                Ok(())
            } else {
                Err(format!("{} {said}", answer.code))
            }
        });
    }

    /// Waits until the API server stamps authors of rules and annotations by itself: a young cluster does not yet, and what
    /// has no author is nobody's for good. Each cluster is waited for so when it starts; a test that brings policies anew waits
    /// again.
    #[track_caller]
    pub fn until_stamped(&self) {
        let spec =
            json!({ "source": { "kind": "ConfigMap", "names": ["a"] }, "targets": [{ "names": ["x"] }] });
        let rule = objects::ours("CopyratorRule", "default", "stamped", spec);
        let mut source = objects::config_map("default", "stamped", []);
        source["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": "nowhere" });
        source["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
        eventually("the API server stamps authors", || {
            for object in [&rule, &source] {
                let made = self.admin.try_create(object).body;
                objects::annotation(&made, "copyrator.dev/author").ok_or_else(|| made.to_string())?;
            }
            Ok(())
        });
    }

    /// Starts the webhook.
    pub fn webhook(&self) -> Operator {
        self.testbed.operator(Role::Webhook, 0, &[]).expect("the webhook starts")
    }

    /// Starts a reconciler.
    pub fn reconciler(&self, replica: u16) -> Operator {
        self.testbed.operator(Role::Reconciler, replica, &[]).expect("the reconciler starts")
    }

    /// Starts a reconciler behind a gate.
    pub fn gated(&self, gate: &Gate) -> Operator {
        self.gated_with(gate, &[])
    }

    /// The same, with flags.
    pub fn gated_with(&self, gate: &Gate, flags: &[&str]) -> Operator {
        let started = self.testbed.operator_as(Role::Reconciler, 0, &gate.kubeconfig, flags);
        started.expect("the reconciler starts")
    }

    /// The reconciler's own account.
    pub fn reconciler_itself(&self) -> Person {
        Person::with(self.testbed.account(Role::Reconciler))
    }

    /// A ServiceAccount, by a token of its own.
    pub fn account(&self, namespace: &str, name: &str) -> Person {
        let cluster = self.testbed.cluster();
        let token = self.kubectl(&["create", "token", name, "--namespace", namespace], &Value::Null);
        let file = cluster.kubeconfig_with_token(&format!("{namespace}-{name}"), token.trim());
        Person::with(&file.expect("the kubeconfig is written"))
    }

    /// Takes the hooks away, so that only the API server itself is left to judge. A reconciler that runs puts them back as
    /// soon as a webhook answers.
    pub fn unhook(&self) {
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            self.admin.delete(kind, "", "copyrator");
        }
    }

    /// Takes off the annotation by which a failed story may have kept the operator's hands off the hooks.
    fn hand_hooks_back(&self) {
        let patch = json!({ "metadata": { "annotations": { "copyrator.dev/hands-off": null } } });
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            // The cluster's first story has no hooks yet.
            self.admin.merge(kind, "", "copyrator", &patch);
        }
    }

    /// Gives up a killed reconciler's lease for it, so that no test waits for it to run out.
    pub fn release_lease(&self) {
        for lease in self.admin.list("Lease", testbed::NAMESPACE, "") {
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            self.admin.delete("Lease", testbed::NAMESPACE, name).ok();
        }
    }
}

fn peopled(options: Options) -> Options {
    let users = [User::new("alice", &["people"]), User::new("bob", &["people"])];
    options.audit(true).users(users)
}

/// The cluster where the operator runs undisturbed.
pub fn peaceful() -> &'static Bed {
    static LANE: Lane = Lane::of("peaceful", 6);
    thread_local! {
        /// Each test has a thread of its own, whose end is the test's.
        static PLACE: Permit = LANE.enter();
    }
    static BED: OnceLock<(Bed, Crew)> = OnceLock::new();
    PLACE.with(|_| ());
    let (bed, _) = BED.get_or_init(|| {
        let bed = Bed::start("peaceful", Options::default());
        let crew = bed.man();
        (bed, crew)
    });
    bed
}

/// One of two clusters where tests start and kill the operator, one test at a time. Nothing of it runs at first.
pub fn rough() -> (&'static Bed, Permit) {
    static LANE: Lane = Lane::of("rough", 2);
    static BEDS: [OnceLock<Bed>; 2] = [const { OnceLock::new() }; 2];
    in_turn("rough", &BEDS, &LANE)
}

/// The same for tests that stop the control plane itself, or come between it and the operator.
pub fn shaky() -> (&'static Bed, Permit) {
    static LANE: Lane = Lane::of("shaky", 1);
    static BEDS: [OnceLock<Bed>; 1] = [const { OnceLock::new() }; 1];
    in_turn("shaky", &BEDS, &LANE)
}

fn in_turn(name: &str, beds: &'static [OnceLock<Bed>], lane: &'static Lane) -> (&'static Bed, Permit) {
    // A test that failed leaves nothing that the next one minds.
    let turn = lane.enter();
    let name = format!("{name}-{}", turn.number);
    let bed = beds[turn.number].get_or_init(|| Bed::start(&name, Options::default()));
    bed.release_lease();
    bed.hand_hooks_back();
    (bed, turn)
}

/// A cluster of one's own.
pub fn private(name: &str) -> Bed {
    alone(|| Bed::start(name, Options::default()))
}

/// A cluster of one's own where only who may update an owner's finalizers makes what blocks its deletion.
pub fn enforcing_owners(name: &str) -> Bed {
    alone(|| Bed::start(name, Options::default().owners_enforced(true)))
}

/// A cluster of one's own where the chart gives rights in these namespaces only.
pub fn namespaced(name: &str, namespaces: &[&str]) -> Bed {
    alone(|| {
        let (options, program) = (peopled(Options::default()), Path::new(PROGRAM));
        let testbed = Testbed::start_in(options, program, &logs::folder(name), namespaces);
        let bed = Bed::over(testbed.expect("the test bed starts"));
        bed.until_stamped();
        bed
    })
}

/// A cluster of one's own with another version in it.
pub fn of_version(name: &str, chart: &Path, program: &Path) -> Bed {
    alone(|| {
        let testbed = Testbed::of_version(peopled(Options::default()), chart, program, &logs::folder(name));
        Bed::over(testbed.expect("the test bed starts"))
    })
}

/// A cluster of one's own where the API server does not stamp authors, as before Kubernetes 1.36.
pub fn unstamped(name: &str) -> Bed {
    alone(|| Bed::unstamped(name, Options::default().mutating_policies(false)))
}

/// A cluster of one's own whose API server has this AdmissionConfiguration.
pub fn presenting(name: &str, configuration: &Path) -> Bed {
    alone(|| Bed::start(name, Options::default().admission_configuration(configuration)))
}

/// Two at a time of the stories whose traffic keeps the machine busy; each has a cluster of its own, too.
pub fn busy() -> Permit {
    static LANE: Lane = Lane::of("busy", 2);
    LANE.enter()
}

/// A few at a time: starting a cluster is what costs the machine most.
fn alone(start: impl FnOnce() -> Bed) -> Bed {
    static LANE: Lane = Lane::of("private", 5);
    let place = LANE.enter();
    Bed { _place: Some(place), ..start() }
}
