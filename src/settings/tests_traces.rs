use super::tests::{faults, file, sources};

/// The faults of settings with these lines in `[telemetry]`.
fn said(lines: &str) -> Vec<String> {
    let file = file(&format!("[telemetry]\n{lines}\n"));
    faults(&sources(Some(file.path())))
}

#[test]
fn a_collector_is_a_url_of_http_without_a_path_of_traces_and_without_credentials() {
    for url in ["127.0.0.1:4318", "grpc://a:4317", "http://", "http://a b"] {
        let said = said(&format!("otlp_endpoint = \"{url}\""));
        assert!(said[0].contains("such as http://127.0.0.1:4318"), "{url}: {said:?}");
    }
    let path = said("otlp_endpoint = \"http://a:4318/v1/traces\"");
    assert!(path[0].contains("without /v1/traces"), "{path:?}");
    let user = said("otlp_endpoint = \"https://user:canary@a\"");
    assert!(user[0].contains("otlp_headers_file") && !user[0].contains("canary"), "{user:?}");
    for url in ["", "http://10.0.0.7:4318", "https://otlp.example.com/team/", "http://[::1]:4318"] {
        let file = file(&format!("[telemetry]\notlp_endpoint = \"{url}\"\n"));
        assert!(sources(Some(file.path())).load().is_ok(), "{url}");
    }
}

#[test]
fn headers_go_in_plain_text_to_this_machine_alone() {
    let with = |url: &str| {
        let lines = format!("otlp_endpoint = \"{url}\"\notlp_headers_file = \"/etc/headers\"");
        let file = file(&format!("[telemetry]\n{lines}\n"));
        sources(Some(file.path())).load().map_err(|faults| faults.to_string())
    };
    assert!(with("http://127.0.0.1:4318").is_ok() && with("https://a.example").is_ok());
    let fault = with("http://a.example:4318").unwrap_err();
    assert!(fault.contains("telemetry.otlp_endpoint") && fault.contains("plain text"), "{fault}");
}

#[test]
fn a_ratio_is_a_number_from_0_to_1() {
    for (text, ratio) in [("0.25", 0.25), ("1", 1.0), ("0", 0.0), ("\"0.5\"", 0.5)] {
        let file = file(&format!("[telemetry]\ntrace_ratio = {text}\n"));
        let loaded = sources(Some(file.path())).load().unwrap();
        let found = loaded.settings.telemetry.trace_ratio;
        assert!((found - ratio).abs() < f64::EPSILON, "{text}: {found}");
    }
    for text in ["1.5", "-0.1", "nan", "\"nan\""] {
        let said = said(&format!("trace_ratio = {text}"));
        assert!(said[0].contains("must be from 0 to 1"), "{text}: {said:?}");
    }
    assert!(said("trace_ratio = \"half\"")[0].contains("a number"));
}

#[test]
fn a_build_without_traces_refuses_a_collector() {
    let file = file("[telemetry]\notlp_endpoint = \"http://127.0.0.1:4318\"\n");
    let loaded = sources(Some(file.path())).load().unwrap();
    let fault = loaded.check_against(&[("otel", false)]).unwrap_err().to_string();
    assert!(fault.contains("telemetry.otlp_endpoint") && fault.contains("`otel`"), "{fault}");
    assert_eq!(loaded.check_against(&[("otel", true)]), Ok(()));
    assert_eq!(loaded.check_build().is_ok(), cfg!(feature = "otel"));
}

#[test]
fn the_file_with_headers_is_read_at_the_start() {
    let check = |content: &str| {
        let headers = file(content);
        let settings = file(&format!(
            "[telemetry]\notlp_headers_file = {:?}\n",
            headers.path().to_str().unwrap()
        ));
        let loaded = sources(Some(settings.path())).load().unwrap();
        loaded.check_files().map_err(|faults| faults.to_string())
    };
    assert_eq!(check("authorization: Bearer x\n"), Ok(()));
    let fault = check("canary\n").unwrap_err();
    assert!(fault.contains("telemetry.otlp_headers_file") && fault.contains("line 1"), "{fault}");
    assert!(!fault.contains("canary"), "{fault}");
}
