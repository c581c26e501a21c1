//! The console's page in a browser: every view, by keyboard, light and dark, at the width of a telephone, as it changes.

use serde_json::{Value, json};

use crate::bed::browser::{Browser, axe, skip};
use crate::bed::objects::{config_map, data, deployment, namespace, ours, secret};
use crate::bed::{Call, Fate, Gate, Story, eventually, peaceful};
use crate::console::Run;

/// What the pages show: copies that are current, one that is blocked, a template, a workload that restarts.
fn furnish(story: &Story<'_>, places: &[String; 4]) {
    let admin = story.admin();
    let [platform, shop, billing, search] = places;
    admin.create(&namespace(platform, &data([]))).ok();
    for place in [shop, billing, search] {
        admin.create(&namespace(place, &data([("team", "acme")]))).ok();
    }
    let targets = json!([{ "namespaceSelector": { "matchLabels": { "team": "acme" } } }]);
    admin.create(&registry(platform, "x")).ok();
    admin.create(&config_map(platform, "ca-bundle", [("ca.pem", "x")])).ok();
    admin.create(&config_map(billing, "ca-bundle", [("own", "x")])).ok();
    for (kind, name) in [("Secret", "registry"), ("ConfigMap", "ca-bundle")] {
        let spec =
            json!({ "source": { "kind": kind, "names": [name] }, "targets": targets, "deletionGrace": "1h" });
        admin.create(&ours("CopyratorRule", platform, name, spec)).ok();
    }
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "team" }, "data": { "who": "acme" } });
    let spec =
        json!({ "forEach": { "namespaces": targets }, "objects": [{ "id": "team", "template": object }] });
    admin.create(&ours("CopyratorTemplate", platform, "starter-kit", spec)).ok();
    admin.create(&config_map(shop, "settings", [("colour", "red")])).ok();
    let mut web = deployment(shop, "web", json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }] }));
    web["spec"]["replicas"] = json!(0);
    admin.create(&web).ok();
    let spec = json!({ "watch": [{ "kind": "ConfigMap", "names": ["settings"] }] });
    admin.create(&ours("ConfigMonitor", shop, "settings", spec)).ok();
    story.until("ConfigMap", search, "team", [("who", "acme")]);
    eventually("the workload is known", || {
        let monitor = admin.get("ConfigMonitor", shop, "settings").ok_or("it is gone")?;
        if monitor["status"]["upToDate"] == 1 { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
}

/// A source whose copies are made anew when it is.
fn registry(platform: &str, password: &str) -> Value {
    let mut source = secret(platform, "registry", [("password", password)]);
    source["immutable"] = json!(true);
    source
}

/// What axe-core finds serious on the page.
fn serious(browser: &mut Browser, axe: &str) -> Value {
    browser.eval(&format!("{axe}; true"));
    browser.eval(
        "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations \
         .filter(one => ['serious', 'critical'].includes(one.impact)) \
         .map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' ')))",
    )
}

#[test]
fn the_page_is_used_by_keyboard_and_read_on_a_telephone() {
    const STORY: &str = "the console's page in a browser";
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(reason) => return skip(STORY, &reason),
    };
    let axe = axe();
    if axe.is_none() {
        let how = "npm install --prefix ~/.cache/copyrator/axe-core axe-core@4.14.1";
        skip("accessibility of the console's page", &format!("there is no axe-core ({how})"));
    }
    let story = Story::at_home(peaceful(), "acme");
    let places = ["platform", "shop", "billing", "search"].map(|part| story.called(part));
    furnish(&story, &places);
    let run = Run::start(&story, None, &["--namespaces", &places.join(",")]);
    let [platform, shop, ..] = &places;

    // The token in the address is changed for a cookie by the script.
    browser.go(&run.page);
    browser.until("location.pathname === '/' && document.title.startsWith('Overview')");
    let origin = browser.eval("location.origin").as_str().expect("an address").to_owned();
    let object = format!("/object/configmap/{shop}/settings");
    for (path, name, part) in [
        ("/", "overview", "1 thing needs attention"),
        ("/where", "where", "starter-kit"),
        (&object, "object", "When it changes"),
        ("/restarts", "restarts", "Current"),
        ("/policies", "policies", "What would happen?"),
        ("/live", "live", "Copyrator's Events"),
    ] {
        eventually(&format!("{path} says {part:?}"), || {
            browser.go(&format!("{origin}{path}"));
            let seen = browser.eval("document.body.innerText").as_str().unwrap_or_default().to_owned();
            if seen.contains(part) { Ok(()) } else { Err(seen) }
        });
        for (width, is_dark) in
            [(1280, false), (1280, true), (768, false), (768, true), (375, true), (375, false)]
        {
            browser.show(width, is_dark);
            let seen = browser.eval("document.documentElement.scrollWidth");
            assert!(seen.as_u64() <= Some(width.into()), "{path} is {seen} wide, of {width}");
            let found = axe.as_deref().map(|axe| serious(&mut browser, axe)).unwrap_or(json!([]));
            assert_eq!(found, json!([]), "{path}, {width} wide, dark: {is_dark}");
            let theme = if is_dark { "dark" } else { "light" };
            browser.picture(&format!("{name}-{width}-{theme}"));
        }
    }
    by_keyboard(&mut browser, &origin);
    as_it_happens(&mut browser, &origin, &story, platform);

    let ours = |address: &&String| address.starts_with(&origin) || address.starts_with("data:");
    let others: Vec<_> = browser.requested.iter().filter(|address| !ours(address)).collect();
    assert!(browser.requested.len() > 20 && others.iter().all(|one| *one == "about:blank"), "{others:?}");
    it_begins_before_its_view(&mut browser, &story, shop, axe.as_deref());
    assert!(browser.faults.is_empty(), "{:?}", browser.faults);
}

fn by_keyboard(browser: &mut Browser, origin: &str) {
    browser.show(1280, false);
    browser.go(&format!("{origin}/"));
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.textContent"), "Skip to content");
    browser.press("Enter");
    browser.until("document.activeElement.id === 'main'");
    browser.go(&format!("{origin}/"));
    browser.tab_to("at.textContent === 'Where'");
    assert_ne!(browser.eval("getComputedStyle(document.activeElement).outlineStyle"), "none", "it is seen");
    browser.press("Enter");
    browser.until("location.pathname === '/where' && document.readyState === 'complete'");
    browser.press("/");
    browser.until("document.activeElement.tagName === 'INPUT'");
    "billing".chars().for_each(|key| browser.press(&key.to_string()));
    browser.press("Enter");
    browser.until("location.search.includes('billing') && document.body.innerText.includes('1 of ')");
    // The address names what is shown: it survives a reload.
    let before = browser.eval("document.querySelector('main table').textContent");
    browser.reload();
    browser.until(&format!("document.querySelector('main table')?.textContent === {before}"));
    browser.tab_to("at.getAttribute('href')?.startsWith('/object/') === true");
    browser.press("Enter");
    browser.until("location.pathname.startsWith('/object/') && document.readyState === 'complete'");
}

/// The feed shows what is reported while somebody looks, and asks nothing while nobody does.
fn as_it_happens(browser: &mut Browser, origin: &str, story: &Story<'_>, platform: &str) {
    browser.go(&format!("{origin}/live"));
    browser.until("document.getElementById('feed-state').classList.contains('on')");
    story.admin().delete("Secret", platform, "registry").ok();
    story.admin().create(&registry(platform, "y")).ok();
    browser.until("document.querySelector('#feed ol').innerText.includes('and created it again')");
    browser.picture("live-1280-news");
    let look = |is_hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    let streams = |browser: &Browser| {
        browser.requested.iter().filter(|address| address.contains("/api/v1/events")).count()
    };
    let before = streams(browser);
    browser.eval(&look(true));
    browser.eval(&look(false));
    browser.until("document.getElementById('feed-state').classList.contains('on')");
    eventually("it asks anew, once", || {
        browser.eval("1");
        crate::bed::same(streams(browser), before + 1)
    });
}

/// While the API server has not answered, the page says what it is looking at; the view then takes the place of that, without a script.
fn it_begins_before_its_view(browser: &mut Browser, story: &Story<'_>, shop: &str, axe: Option<&str>) {
    let is_survey = |call: &Call| call.method == "GET" && call.path.ends_with("/secrets");
    let gate = Gate::over(story.bed, is_survey, |_, _| Fate::Waits);
    let run = Run::start(story, Some(&gate.kubeconfig), &["--namespaces", shop]);
    browser.show(1280, false);
    browser.eval(&format!("location.href = '{}'", run.page));
    browser.until("document.querySelector('.looking [role=status]').innerText.startsWith('Reading')");
    browser.until("location.pathname === '/' && document.querySelector('nav') !== null");
    let sound = |browser: &mut Browser| {
        let found = axe.map(|axe| serious(browser, axe)).unwrap_or(json!([]));
        assert_eq!(found, json!([]));
        assert_eq!(
            browser.eval("[...document.querySelectorAll('h1')].filter(one => one.offsetParent).length"),
            1
        );
    };
    assert_eq!(browser.eval("document.readyState"), "loading");
    browser.picture("overview-1280-looking");
    sound(browser);
    gate.let_through();
    browser.until(
        "document.readyState === 'complete' && document.querySelector('main').innerText.includes('Copies in order')",
    );
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('.looking')).display"), "none");
    sound(browser);
}
