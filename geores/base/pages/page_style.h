// The look of every page that geores writes: the explorer's colours and type (web/src/style), light and dark.
#pragma once

namespace geores {

// Charts are drawn with fixed colours; on a page the rules below give each of them its dark form.
inline constexpr const char* kPageStyle = R"css(
:root{color-scheme:light dark;--page:#fcfbf8;--panel:#ffffff;--ink:#1d2126;--soft:#565c66;--line:#d9d6ce;--hair:#ebe8e1;
--rotation:#0072b2;--rotation-text:#00669f;--reflection:#d55e00;--mhc:#00885f;--blend:#b8588f;--warn:#b04c00;--tint:#eef5fb}
@media(prefers-color-scheme:dark){:root{--page:#15171b;--panel:#1b1e23;--ink:#e9e7e2;--soft:#a9adb5;--line:#3a3f47;
--hair:#2a2e35;--rotation:#3c9fdc;--rotation-text:#62b5e8;--reflection:#ef7d22;--mhc:#14b88a;--blend:#d98bb6;
--warn:#f59548;--tint:#1d2c38}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:17px/1.55 "Linux Libertine O",Charter,"Sitka Text",Cambria,serif;
overflow-wrap:break-word}
main{max-width:66rem;margin:0 auto;padding:1.2rem 1.1rem 4rem}
nav,.scroll,.foot,.legend{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
nav{font-size:14px;color:var(--soft);display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}
a{color:var(--rotation-text);text-underline-offset:.15em}
h1{font-size:clamp(1.7rem,5vw,2.4rem);line-height:1.15;font-weight:600;margin:.6em 0 .4em;text-wrap:balance}
h2{font-size:1.4rem;line-height:1.25;font-weight:600;margin:2.2em 0 .5em;border-top:1px solid var(--line);padding-top:.9em}
h3{font-size:1.1rem;margin:1.6em 0 .2em}
p{max-width:42rem;margin:0 0 .8em;text-wrap:pretty}
.conclusion{font-size:1.2rem;line-height:1.45;font-weight:600}
.warning{max-width:42rem;border-left:4px solid var(--reflection);background:var(--panel);padding:.5em .9em;margin:.6em 0}
figure{margin:0 0 1.8em}
figcaption{max-width:42rem;color:var(--soft);margin-top:.4em}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));gap:1rem}
.panel,.chart{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:.4rem;overflow-x:auto}
figure svg{display:block;max-width:100%;height:auto}
.panel svg{width:100%}
.chart svg{max-width:none}
svg text:not([fill]){fill:var(--ink)}
svg>rect:first-child[fill="white"]{fill:var(--panel)}
[stroke="#e4e4e4"]{stroke:var(--hair)}[stroke="#444"]{stroke:var(--soft)}[fill="#444"]{fill:var(--soft)}
[stroke="#0072b2"]{stroke:var(--rotation)}[fill="#0072b2"]{fill:var(--rotation)}
[stroke="#d55e00"]{stroke:var(--reflection)}[fill="#d55e00"]{fill:var(--reflection)}
[stroke="#009e73"]{stroke:var(--mhc)}[fill="#009e73"]{fill:var(--mhc)}
[stroke="#cc79a7"]{stroke:var(--blend)}[fill="#cc79a7"]{fill:var(--blend)}
[stroke="#000000"]{stroke:var(--ink)}[fill="#000000"]{fill:var(--ink)}
.scroll{overflow-x:auto;margin:0 0 1.8em;border:1px solid var(--line);border-radius:10px;background:var(--panel)}
.scroll{background:linear-gradient(to right,transparent,var(--panel) 70%) 100% 0/2.5rem 100% no-repeat local,
linear-gradient(to left,var(--line),transparent) 100% 0/1.1rem 100% no-repeat scroll,var(--panel)}
.scroll:focus-visible,.chart:focus-visible{outline:2px solid var(--rotation);outline-offset:2px}
table{border-collapse:collapse;font-size:14px;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.4em .8em;text-align:right;border-top:1px solid var(--hair);white-space:nowrap}
th{border-top:0;color:var(--soft);font-weight:500;vertical-align:bottom}
th:first-child,td:first-child{text-align:left}
td.marked{font-weight:bold;background:var(--tint)}
.foot{font-size:13px;color:var(--soft);border-top:1px solid var(--line);padding-top:.8em;max-width:none}
@media(max-width:600px){.panel svg text{font-size:15px}th,td{padding:.35em .55em}
.scroll th:first-child,.scroll td:first-child{position:sticky;left:0;background:var(--panel)}}
@media print{.panel,.chart,.scroll{border:0}}
)css";

}  // namespace geores
