//! The console of the cluster in a browser: in plain HTTP on localhost, as `kubectl port-forward` brings it there, and below a path.

use serde_json::json;

use crate::bed::browser::{Browser, skip};
use crate::bed::objects::config_map;
use crate::bed::{Story, peaceful};
use crate::console::tenant;
use crate::console_cluster::{Console, token};

const BASE: &str = "/tools/copyrator";

#[test]
fn somebody_logs_in_with_a_token_below_a_path_sees_what_happens_and_logs_out() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the page of the console in the cluster", &reason),
    };
    let story = Story::new(peaceful(), "console-cluster-page");
    let home = &story.home;
    story.admin().create(&config_map(home, "app", [("k", "1")])).ok();
    tenant(&story);
    let token = token(&story, "tenant");
    let console = Console::start(&story, &["--base-path", BASE]);
    let port = console.host.rsplit(':').next().expect("a port").to_owned();
    let home_page = format!("http://localhost:{port}{BASE}");

    // A visit leads to the form, and a link fills in nothing.
    browser.go(&format!("{home_page}/where"));
    browser.until(&format!("location.pathname === '{BASE}/login'"));
    browser.go(&format!("{home_page}/login#{token}"));
    assert_eq!(browser.eval("document.getElementById('token').value"), "");
    log_in(&mut browser, &token);
    browser.until(&format!("location.pathname === '{BASE}' && document.title.startsWith('Overview')"));
    assert_eq!(browser.eval("document.cookie"), "", "no script reads it");
    browser.until(&format!("document.body.innerText.includes('system:serviceaccount:{home}:tenant')"));
    browser.picture("cluster-overview-1280");

    // Every view by its link, and what happens as it happens.
    for (name, path) in
        [("Where", "/where"), ("Restarts", "/restarts"), ("Policies", "/policies"), ("Live", "/live")]
    {
        browser.eval(&format!(
            "[...document.querySelectorAll('nav a')].find(link => link.textContent === '{name}').click()"
        ));
        browser.until(&format!("location.pathname === '{BASE}{path}' && document.readyState === 'complete'"));
    }
    browser.until("document.getElementById('feed-state').classList.contains('on')");
    browser.reload();
    browser.until("document.getElementById('feed-state').classList.contains('on')");

    browser.eval("document.querySelector('.out button').click()");
    browser.until(&format!("location.pathname === '{BASE}/login' && document.readyState === 'complete'"));
    browser.go(&home_page);
    browser.until(&format!("location.pathname === '{BASE}/login' && document.readyState === 'complete'"));

    let ours = |address: &&String| address.starts_with(&home_page) || address.starts_with("data:");
    let others: Vec<_> = browser.requested.iter().filter(|address| !ours(address)).collect();
    assert!(browser.requested.len() > 20 && others.iter().all(|one| *one == "about:blank"), "{others:?}");
    assert_eq!(json!(browser.faults), json!([]));
}

fn log_in(browser: &mut Browser, token: &str) {
    browser.eval(&format!("document.getElementById('token').value = '{token}'"));
    browser.eval("document.querySelector('.login button').click()");
}
