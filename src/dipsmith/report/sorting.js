document.querySelectorAll('th button').forEach(function (b) { b.addEventListener('click', function () {
  var th = b.parentNode, table = th.closest('table'), body = table.tBodies[0], i = th.cellIndex;
  var up = th.getAttribute('aria-sort') !== 'ascending';
  table.querySelectorAll('th').forEach(function (h) { h.removeAttribute('aria-sort'); });
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  var key = function (r) { var c = r.cells[i], v = c.getAttribute('data-v'); return v === null ? c.textContent : parseFloat(v); };
  Array.from(body.rows).sort(function (a, b) { var x = key(a), y = key(b);
    var d = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), undefined, {numeric: true});
    return up ? d : -d; }).forEach(function (r) { body.appendChild(r); });
}); });
