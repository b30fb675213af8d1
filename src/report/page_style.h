#pragma once

namespace simurgh {

// The style of a page. Colours of series are those of Okabe and Ito, which people with colour
// blindness tell apart: https://jfly.uni-koeln.de/color/.
inline constexpr char kPageStyle[] = R"(
  :root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#595959;--rule:#dcdcdc;
  --tint:#f4f6f8;--a:#0072b2;--b:#d55e00;--c:#009e73;}
  @media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e8e8e8;--soft:#a6a6a6;
  --rule:#3a3f45;--tint:#1f242a;--a:#56b4e9;--b:#e69f00;--c:#2fc79a;}}
  *{box-sizing:border-box}
  body{margin:0;background:var(--paper);color:var(--ink);
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
  main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 4rem}
  h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem;overflow-wrap:anywhere}
  h2{font-size:1.2rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--rule)}
  h3{font-size:1rem;margin:1.5rem 0 .25rem;overflow-wrap:anywhere}
  p{margin:.5rem 0;max-width:44rem;overflow-wrap:anywhere}
  .soft,figcaption,.legend{color:var(--soft);font-size:.875rem}
  .headline{font-size:1.1rem}
  .facts{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0;padding:0}
  .facts div{min-width:6rem}
  .facts dt{color:var(--soft);font-size:.8rem}
  .facts dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
  .facts dd small{display:block;font-size:.8rem;color:var(--soft)}
  ol.next{padding-left:1.4rem;max-width:46rem}
  ol.next li{margin:.75rem 0;overflow-wrap:anywhere}
  code{font:.85em/1.4 ui-monospace,SFMono-Regular,"Liberation Mono",monospace;background:var(--tint);
  padding:.1em .3em;border-radius:3px;display:inline-block;max-width:100%;overflow-x:auto;
  white-space:nowrap;vertical-align:bottom}
  .plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1.25rem}
  figure{margin:0;min-width:0;max-width:34rem}
  figure svg{width:100%;height:auto;display:block}
  figure h3{margin-top:.5rem}
  svg text{fill:var(--soft);font-size:11px}
  .grid{stroke:var(--rule);stroke-width:.7}
  .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
  .chosen{stroke:var(--ink);stroke-width:1.3;stroke-dasharray:7 3}
  .ideal{stroke:var(--soft);stroke-width:1}
  .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
  .dashed{stroke-dasharray:6 3}
  .whisker{stroke-width:1.4}
  .line.a,.whisker.a{stroke:var(--a)}.line.b,.whisker.b{stroke:var(--b)}
  .line.c,.whisker.c{stroke:var(--c)}.whisker.ink{stroke:var(--ink)}
  .dot.a,.area.a,.bar.a{fill:var(--a)}.dot.b,.area.b{fill:var(--b)}.dot.c,.area.c{fill:var(--c)}
  .area{fill-opacity:.18}.spot{fill:transparent}.spot:hover{fill:var(--ink);fill-opacity:.3}
  .legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.15rem 0}
  .legend span{display:inline-flex;align-items:center;gap:.35rem}
  svg.key{width:22px;height:10px}
  .wide{overflow-x:auto;max-width:100%}
  table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;margin:.5rem 0}
  th,td{padding:.25rem .9rem .25rem 0;text-align:right;border-bottom:1px solid var(--rule);
  vertical-align:top;font-weight:400;white-space:nowrap}
  thead th{color:var(--soft);vertical-align:bottom}
  th:first-child{text-align:left;min-width:6rem;max-width:22rem;white-space:normal;
  overflow-wrap:break-word;position:sticky;left:0;background:var(--paper)}
  table.texts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
  details{margin:.35rem 0}
  summary{color:var(--soft);font-size:.875rem;cursor:pointer}
  @media print{:root{--paper:#fff;--ink:#000;--soft:#444;--rule:#ccc;--tint:#f4f4f4;--a:#0072b2;
  --b:#d55e00;--c:#009e73}body{font-size:11pt}main{max-width:none;padding:0}
  figure,tr,li{break-inside:avoid}h2,h3{break-after:avoid}}
)";

}  // namespace simurgh
