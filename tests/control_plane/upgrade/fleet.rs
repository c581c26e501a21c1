//! The processes of an install that is upgraded: two webhooks behind one address, and a reconciler.

use std::time::Duration;

use testbed::{Balancer, Operator, Role};

use crate::bed::{Bed, eventually};

/// How long a replica still gets connections after it has said that it goes, and how long it stays for them.
const LAG: Duration = Duration::from_secs(1);
const DRAIN: [&str; 2] = ["--drain-delay", "3s"];

/// The operator's processes, behind what the API server calls.
pub struct Fleet {
    /// What the API server calls.
    pub balancer: Balancer,
    /// Both replicas.
    pub webhooks: [Operator; 2],
    /// The one that leads.
    pub reconciler: Operator,
}

impl Fleet {
    /// Starts all, of the bed's version, and waits until they are ready.
    pub fn start(bed: &Bed) -> Fleet {
        let balancer = Balancer::open(LAG).expect("the balancer opens");
        let start = |role, replica| begin(bed, &balancer, role, replica);
        let webhooks = [0, 1].map(|replica| start(Role::Webhook, replica));
        let reconciler = start(Role::Reconciler, 0);
        let mut fleet = Fleet { balancer, webhooks, reconciler };
        for process in fleet.webhooks.iter_mut().chain([&mut fleet.reconciler]) {
            process.wait_ready().expect("it becomes ready");
        }
        bed.testbed.wait_hooked().expect("the hooks are applied");
        fleet
    }

    /// One replica after the other gives way to one of the bed's version, as in a rollout of the Deployment.
    pub fn replace_webhooks(&mut self, bed: &Bed) {
        for (number, replica) in (0..).zip(&mut self.webhooks) {
            eventually("both get calls", || match self.balancer.ready() {
                2 => Ok(()),
                other => Err(format!("{other} of 2")),
            });
            let status = replica.end().expect("it ends");
            assert!(status.success(), "{status}");
            *replica = begin(bed, &self.balancer, Role::Webhook, number);
            replica.wait_ready().expect("it becomes ready");
        }
    }

    /// The reconciler gives way to one of the bed's version.
    pub fn replace_reconciler(&mut self, bed: &Bed) {
        let status = self.reconciler.end().expect("it ends");
        assert!(status.success(), "{status}");
        self.reconciler = begin(bed, &self.balancer, Role::Reconciler, 0);
        self.reconciler.wait_ready().expect("it becomes ready");
    }
}

fn begin(bed: &Bed, balancer: &Balancer, role: Role, replica: u16) -> Operator {
    bed.testbed.balanced(balancer, role, replica, &DRAIN).expect("it starts")
}
